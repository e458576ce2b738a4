//! Pictures of a machine, for the terminal, as a drawing, and as an HTML page with the drawing.
//!
//! ```text
//!   emulated    the objects of a Platform       shown      those of a real machine, as far as its kernel shows them
//!   scene       the objects, in the order in which they are drawn
//!   canvas      cells with a character and an ink        terminal   the picture in box characters
//!   svg         the drawing, shape by shape              page       the page around it
//!   style       colours and styles of both
//! ```

mod canvas;
mod emulated;
mod page;
mod plain;
mod scene;
mod shown;
mod style;
mod svg;
mod terminal;

pub use canvas::Palette;
pub use page::page;
pub use scene::Scene;
pub use svg::drawing;
pub use terminal::terminal;
