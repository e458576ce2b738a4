//! A page: Markdown with programs, and sessions in a shell.
//!
//! ````text
//! ```rust       a complete program            ```console    commands, each after `$ `, and their output;
//! ```output     the output of the last one                  a line after `> ` continues the command
//! ````
//! All other blocks are for readers alone.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The pages, from the root of the workspace.
pub const PAGES: [&str; 8] = [
    "README.md",
    "docs/guide/README.md",
    "docs/guide/store.md",
    "docs/guide/typed-data.md",
    "docs/guide/changing-types.md",
    "docs/guide/crash-testing-your-engine.md",
    "docs/guide/from-module-to-pool.md",
    "interfaces/store/README.md",
];

/// A page that tests run from top to bottom, in one folder.
#[derive(Debug)]
pub struct Page {
    /// Path of its file.
    pub path: PathBuf,
    /// Its programs and sessions, in their order.
    pub blocks: Vec<Block>,
}

/// A part of a page that can be run.
#[derive(Debug, PartialEq, Eq)]
pub enum Block {
    /// A complete program.
    Program {
        /// Number of the program on its page, from 1.
        number: usize,
        /// The source.
        text: String,
        /// The output that the page shows, if it does.
        output: Option<String>,
    },
    /// Commands with their output.
    Session {
        /// The commands, in their order.
        steps: Vec<Step>,
    },
}

/// A command with its output.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Number of the line of the page, from 1.
    pub line: usize,
    /// Text for the shell.
    pub command: String,
    /// The output that the page shows.
    pub output: String,
}

impl Page {
    /// Reads the page with this path from the root of the workspace.
    ///
    /// # Errors
    /// Fails if the file can't be read, or has an output without a program or a command.
    pub fn read(name: &str) -> io::Result<Page> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        let text = fs::read_to_string(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        let blocks =
            blocks(&text).map_err(|line| io::Error::other(format!("{name}:{line}: output of nothing")))?;
        Ok(Page { path, blocks })
    }
}

/// Returns the blocks of a text; the number of a line as the error.
fn blocks(text: &str) -> Result<Vec<Block>, usize> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((opening, line)) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let inside: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let text: String = inside.iter().map(|line| format!("{line}\n")).collect();
        match kind {
            "rust" | "rust,no_run" => {
                let programs = blocks.iter().filter(|block| matches!(block, Block::Program { .. }));
                blocks.push(Block::Program { number: programs.count() + 1, text, output: None });
            }
            "output" => match blocks.last_mut() {
                Some(Block::Program { output, .. }) => *output = Some(text),
                _ => return Err(opening + 1),
            },
            "console" => blocks.push(Block::Session { steps: steps(&inside, opening + 2)? }),
            _ => {}
        }
    }
    Ok(blocks)
}

/// Returns the commands of a session whose first line has this number.
fn steps(lines: &[&str], first: usize) -> Result<Vec<Step>, usize> {
    let mut steps: Vec<Step> = Vec::new();
    for (line, text) in (first..).zip(lines) {
        if let Some(command) = text.strip_prefix("$ ") {
            steps.push(Step { line, command: command.to_owned(), output: String::new() });
            continue;
        }
        let step = steps.last_mut().ok_or(line)?;
        match text.strip_prefix("> ").filter(|_| step.output.is_empty()) {
            Some(more) => step.command = format!("{}\n{more}", step.command),
            None => step.output = format!("{}{text}\n", step.output),
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn blocks_have_their_output() {
        let text = "a\n```rust\nfn main() {}\n```\nprints\n```output\n7\n```\n```console\n$ a \\\n> b\n1\n2\n$ c\n```\n```toml\nx\n```\n";
        let program = Block::Program { number: 1, text: "fn main() {}\n".into(), output: Some("7\n".into()) };
        let step =
            |line, command: &str, output: &str| Step { line, command: command.into(), output: output.into() };
        let session = Block::Session { steps: vec![step(10, "a \\\nb", "1\n2\n"), step(14, "c", "")] };
        assert_eq!(blocks(text), Ok(vec![program, session]));
        assert_eq!(blocks("```output\n7\n```\n"), Err(1));
        assert_eq!(blocks("\n```console\n7\n```\n"), Err(3));
    }
}
