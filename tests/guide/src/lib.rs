//! The pages for users, README.md and those in docs/guide/, as tests run them.
//!
//! ```text
//!   docs/guide/*.md --> build.rs: a module for each program --> run: a program by its page and number
//!                  \--> Page: programs and sessions in their order --> interfaces/cli/tests/suite/guide_is_true.rs
//! ```
//!
//! So a page has the one copy of each program. One that does not compile is an error of the compiler here.
#![forbid(unsafe_code)]

mod page;
mod transcript;

pub use page::{Block, PAGES, Page, Step};
pub use transcript::is_as_shown;

use std::error::Error;

/// The `main` of a program.
type Main = fn() -> Result<(), Box<dyn Error>>;

include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// Runs the program with this number, from 1, of a page.
///
/// # Errors
/// Returns the error of the program.
///
/// # Panics
/// Panics if there is no such program.
pub fn run(page: &str, number: usize) -> Result<(), Box<dyn Error>> {
    let mut programs = PROGRAMS.iter();
    let found = programs.find(|(its_page, its_number, _)| (*its_page, *its_number) == (page, number));
    let Some((_, _, main)) = found else { panic!("{page} has no program {number}") };
    main()
}
