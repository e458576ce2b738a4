//! The records of a log, of either format, and their output.

use crate::failure::Failure;
use crate::log::{LogFormat, failed, log_error, pmem_failed, pmem_log_error};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lode_log::LogView;
use lode_log::pmdk::PmemLogView;
use serde_json::json;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("position", "position of a record, one object a line"),
    ("record", "its content; record_b64, in base64, if it is not UTF-8"),
];

/// Bytes of PMDK's log that are read at a time.
const READ_LEN: usize = 64 << 10;

/// A record that was read.
pub(super) struct Record {
    pub(super) position: u64,
    pub(super) content: Vec<u8>,
}

/// A walk through a log. It reports what it has to skip.
pub(super) struct Reader {
    what: &'static str,
    path: PathBuf,
    view: View,
    json: bool,
    /// Number of damages that were skipped.
    damages: u64,
}

enum View {
    Log(Box<LogView>),
    Pmemlog(Box<Lines>),
}

/// The lines of a log pool of PMDK.
struct Lines {
    view: PmemLogView,
    /// Bytes that were read and not returned.
    text: Vec<u8>,
    /// Position of the first of them.
    position: u64,
}

impl Reader {
    pub(super) fn open(what: &'static str, path: &Path, json: bool) -> Result<Reader, Failure> {
        let view = match LogFormat::recognise(what, path)? {
            LogFormat::Log => View::Log(Box::new(LogView::open(path).map_err(failed(what))?)),
            LogFormat::Pmemlog => {
                let view = PmemLogView::open(path).map_err(pmem_failed(what))?;
                View::Pmemlog(Box::new(Lines { view, text: Vec::new(), position: 0 }))
            }
        };
        Ok(Reader { what, path: path.to_owned(), view, json, damages: 0 })
    }

    /// Goes to a position.
    pub(super) fn seek(&mut self, position: u64) -> Result<(), Failure> {
        match &mut self.view {
            View::Log(view) => {
                view.seek(position).map_err(|error| failed(self.what)(log_error(&self.path, error)))
            }
            View::Pmemlog(lines) => {
                let found = lines.view.seek(position);
                let is_there =
                    found.map_err(|error| pmem_failed(self.what)(pmem_log_error(&self.path, error)))?;
                lines.position = position;
                if is_there {
                    return Ok(());
                }
                let path = self.path.display();
                let why = format!("{path}: the log ends before position {position}; choose an earlier one");
                Err(Failure::new(self.what, why))
            }
        }
    }

    /// Returns the next record; `None` if there is none yet. The rest after the last newline of a log pool of PMDK counts as
    /// one if `is_last`.
    pub(super) fn next(&mut self, is_last: bool) -> Result<Option<Record>, Failure> {
        loop {
            let (before, failure) = match &mut self.view {
                View::Log(view) => {
                    let (before, mut content) = (view.position(), Vec::new());
                    match view.next(&mut content) {
                        Ok(record) => {
                            return Ok(record.map(|found| Record { position: found.position, content }));
                        }
                        Err(error) => (before, failed(self.what)(log_error(&self.path, error))),
                    }
                }
                View::Pmemlog(lines) => {
                    let before = lines.view.position();
                    match lines.next(is_last) {
                        Ok(record) => return Ok(record),
                        Err(error) => (before, pmem_failed(self.what)(pmem_log_error(&self.path, error))),
                    }
                }
            };
            // A view that went on has skipped something. One that did not can't go on.
            if self.position() == before {
                return Err(failure);
            }
            self.damages += u64::from(failure.is_damage());
            failure.report(self.json);
        }
    }

    fn position(&self) -> u64 {
        match &self.view {
            View::Log(view) => view.position(),
            View::Pmemlog(lines) => lines.view.position(),
        }
    }

    /// Fails if damage was skipped.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self.damages {
            0 => Ok(()),
            damages => {
                let path = self.path.display();
                let why =
                    format!("{path}: damage in {damages} places hides records; `lode log check` shows it");
                Err(Failure::damage(self.what, why))
            }
        }
    }
}

impl Lines {
    fn next(&mut self, is_last: bool) -> Result<Option<Record>, lode_log::pmdk::PmemLogError> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.text[searched..].iter().position(|byte| *byte == b'\n') {
                let mut content: Vec<u8> = self.text.drain(..=searched + at).collect();
                let position = self.position;
                self.position += content.len() as u64;
                content.pop();
                return Ok(Some(Record { position, content }));
            }
            searched = self.text.len();
            self.text.resize(searched + READ_LEN, 0);
            match self.view.next(&mut self.text[searched..]) {
                Ok(len) => self.text.truncate(searched + len),
                Err(error) => {
                    // The line is lost with the bytes.
                    self.text.clear();
                    self.position = self.view.position();
                    return Err(error);
                }
            }
            if self.text.len() == searched {
                if !is_last || self.text.is_empty() {
                    return Ok(None);
                }
                let position = self.position;
                self.position += searched as u64;
                return Ok(Some(Record { position, content: std::mem::take(&mut self.text) }));
            }
        }
    }
}

/// Standard output for records.
pub(super) struct Printer {
    out: BufWriter<StdoutLock<'static>>,
    json: bool,
}

impl Printer {
    pub(super) fn new(json: bool) -> Printer {
        Printer { out: BufWriter::with_capacity(1 << 16, io::stdout().lock()), json }
    }

    pub(super) fn print(&mut self, record: &Record) -> Result<(), Failure> {
        let Record { position, content } = record;
        let printed = match (self.json, std::str::from_utf8(content)) {
            (false, _) => self.out.write_all(content).and_then(|()| self.out.write_all(b"\n")),
            (true, Ok(text)) => writeln!(self.out, "{}", json!({ "position": position, "record": text })),
            (true, Err(_)) => {
                let record = STANDARD.encode(content);
                writeln!(self.out, "{}", json!({ "position": position, "record_b64": record }))
            }
        };
        printed.map_err(Failure::stdout)
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::stdout)
    }
}
