//! Pictures of a machine, for the terminal and as an HTML page with a drawing.
//!
//! ```text
//!   scene       the objects, in the order in which they are drawn
//!   canvas      cells with a character and an ink        terminal   the picture in box characters
//!   svg         the drawing, shape by shape              page       the page around it
//! ```

mod canvas;
mod page;
mod scene;
mod svg;
mod terminal;

pub use canvas::Palette;

/// Replaces characters of a name that begin a line, move the cursor or change the text direction.
fn plain(text: &str) -> String {
    let hostile = |one: char| {
        one.is_control()
            || matches!(one, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    text.chars().map(|one| if hostile(one) { '\u{fffd}' } else { one }).collect()
}
