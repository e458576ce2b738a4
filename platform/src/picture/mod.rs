//! Pictures of a machine: on the terminal, and as a page with a drawing.
//!
//! ```text
//!   scene       what is to be seen, in the order in which it is drawn
//!   canvas      cells with a character and an ink        terminal   the picture in box characters
//!   svg         the drawing, shape by shape              page       the page around it
//! ```

mod canvas;
mod page;
mod scene;
mod svg;
mod terminal;

pub use canvas::Palette;

/// What one thing is called, safe for a terminal: nothing in it begins a line, moves the cursor or turns the direction.
fn plain(text: &str) -> String {
    let hostile = |one: char| {
        one.is_control()
            || matches!(one, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    text.chars().map(|one| if hostile(one) { '\u{fffd}' } else { one }).collect()
}
