//! `lode log append`.

use crate::failure::Failure;
use crate::global_options::GlobalOptions;
use crate::input::Input;
use crate::interrupt::Interrupt;
use crate::log::writer::Writer;
use crate::output::Output;
use crate::progress::Progress;
use clap::Args;
use serde_json::json;
use std::io::{self, Read, Write};
use std::path::PathBuf;

const WHAT: &str = "appending to a log";
/// Bytes that are read at a time.
const READ_LEN: usize = 256 << 10;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("acknowledged", "with --ack: number of lines that are durable, one object for each append"),
    ("path", "path of the log"),
    ("records", "number of records that were appended"),
    ("end", "position after the last record, where a later walk can begin"),
];

#[derive(Args, Debug)]
pub(crate) struct Append {
    /// The log
    path: PathBuf,
    /// The text; - is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Print the number of lines that are durable, once they are, and never before: a number for each append
    #[arg(long)]
    ack: bool,
}

/// An append that is running.
struct Appender<'a> {
    append: &'a Append,
    json: bool,
    writer: &'a Writer,
    progress: Progress,
    /// Number of records that are durable.
    records: u64,
}

pub(crate) fn run(append: &Append, options: &GlobalOptions) -> Result<Output, Failure> {
    let Append { path, file, ack } = append;
    let interrupt = Interrupt::listen()?;
    let mut input = Input::open(file, &interrupt).map_err(|error| Failure::io(WHAT, file, &error))?;
    let writer = Writer::open(WHAT, path, options.durability)?;
    let progress = Progress::counter("records appended");
    let mut appender = Appender { append, json: options.json, writer: &writer, progress, records: 0 };
    let appended = appender.run(&mut input, &interrupt);
    let records = appender.records;
    drop(appender);
    let end = writer.end();
    let closed = writer.close(WHAT);
    appended.and(closed)?;
    let output = match ack {
        // Standard output has only the numbers.
        true => Output::empty(),
        false => Output::text(format!("{}: {records} records appended, the end is {end}\n", path.display())),
    };
    Ok(output.with("path", path.display().to_string()).with("records", records).with("end", end))
}

impl Appender<'_> {
    fn run(&mut self, input: &mut Input<'_>, interrupt: &Interrupt) -> Result<(), Failure> {
        let mut text: Vec<u8> = Vec::new();
        let mut part = vec![0; READ_LEN];
        loop {
            let len = match input.read(&mut part) {
                Ok(len) => len,
                Err(_) if interrupt.is_set() => {
                    let (path, records) = (self.append.path.display(), self.records);
                    let why =
                        format!("{WHAT}: {path}: interrupted after {records} records, which are durable");
                    return Err(Failure::interrupted(why));
                }
                Err(error) => return Err(Failure::io(WHAT, &self.append.file, &error)),
            };
            text.extend_from_slice(&part[..len]);
            let is_end = len == 0;
            if is_end && text.last().is_some_and(|byte| *byte != b'\n') {
                text.push(b'\n');
            }
            let whole = match part[..len].contains(&b'\n') || is_end {
                true => text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1),
                false => 0,
            };
            self.append(&text[..whole])?;
            text.drain(..whole);
            if text.len() as u64 > self.writer.room() {
                // A line that can't fit is not read to its end. The log says why.
                self.append(&text)?;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// Appends whole lines, as many at a time as the log takes.
    fn append(&mut self, text: &[u8]) -> Result<(), Failure> {
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let mut rest = &lines[..];
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(self.writer.fitting(rest));
            self.writer.append(WHAT, &self.append.path, batch).map_err(|failure| {
                failure.with_note(&format!("{} lines before it are durable", self.records))
            })?;
            self.records += batch.len() as u64;
            self.progress.add(batch.len() as u64);
            self.acknowledge().map_err(Failure::stdout)?;
            rest = later;
        }
        Ok(())
    }

    /// Prints the number of lines that are durable.
    fn acknowledge(&self) -> io::Result<()> {
        if !self.append.ack {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        match self.json {
            true => writeln!(out, "{}", json!({ "acknowledged": self.records }))?,
            false => writeln!(out, "{}", self.records)?,
        }
        out.flush()
    }
}
