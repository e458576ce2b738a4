//! The text of a load: read line by line, hashed, and taken up where an earlier load ended.

use lode_layout::KvLoad;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take, Write};
use xxhash_rust::xxh3::Xxh3;

/// Bytes that are read at a time.
const READ_LEN: usize = 256 * 1024;

/// A file, a pipe or a terminal to load from.
pub struct Input {
    reader: BufReader<Source>,
    /// Where it began, if it can be read again from there.
    start: Option<u64>,
    hash: Xxh3,
    offset: u64,
    lines: u64,
}

/// What was read from a pipe to compare it and must be read once more, and then the rest.
#[derive(Debug)]
struct Source {
    again: Option<Take<File>>,
    file: File,
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(again) = &mut self.again {
            let len = again.read(into)?;
            if again.limit() == 0 {
                // Now, and not when it is asked for more: then what is read next may have to be waited for.
                self.again = None;
            }
            if len > 0 || into.is_empty() {
                return Ok(len);
            }
        }
        self.file.read(into)
    }
}

/// How reading a line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It is in the buffer, without its newline.
    Whole,
    /// It has too many bytes; those are passed over.
    TooLong,
    /// There is none.
    End,
}

impl Input {
    /// Reads `file` from where it stands.
    pub fn new(mut file: File) -> Input {
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        let start = if is_file { file.stream_position().ok() } else { None };
        let reader = BufReader::with_capacity(READ_LEN, Source { again: None, file });
        Input { reader, start, hash: Xxh3::new(), offset: 0, lines: 0 }
    }

    /// Passes over what `load` says is in the tree, if this is the input that it was. Otherwise everything is
    /// still to be read.
    pub(super) fn take_up(&mut self, load: &KvLoad) -> io::Result<bool> {
        let mut spool = if self.start.is_none() { Some(tempfile::tempfile()?) } else { None };
        let mut hash = Xxh3::new();
        let mut last = b'\n';
        let mut left = load.offset;
        while left > 0 {
            let bytes = self.reader.fill_buf()?;
            let len = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let Some(end) = bytes[..len].last() else { break };
            last = *end;
            hash.update(&bytes[..len]);
            if let Some(spool) = &mut spool {
                spool.write_all(&bytes[..len])?;
            }
            self.reader.consume(len);
            left -= len as u64;
        }
        // A line that had no newline may have become a longer one.
        let at_line_end = last == b'\n' || self.is_at_end()?;
        if left == 0 && words(&hash) == load.hash && at_line_end {
            (self.hash, self.offset, self.lines) = (hash, load.offset, load.lines);
            return Ok(true);
        }
        self.go_back(spool)?;
        Ok(false)
    }

    fn go_back(&mut self, spool: Option<File>) -> io::Result<()> {
        match (spool, self.start) {
            (Some(mut spool), _) => {
                spool.write_all(self.reader.buffer())?;
                self.reader.consume(self.reader.buffer().len());
                let len = spool.stream_position()?;
                spool.rewind()?;
                self.reader.get_mut().again = Some(spool.take(len)).filter(|spool| spool.limit() > 0);
            }
            (None, Some(start)) => {
                self.reader.consume(self.reader.buffer().len());
                self.reader.get_mut().file.seek(SeekFrom::Start(start))?;
            }
            (None, None) => unreachable!("what can't be read again has a spool"),
        }
        Ok(())
    }

    /// Reads the next line. Unless [`advance`](Input::advance) is called after it, it does not count as read.
    pub(super) fn read_line(&mut self, line: &mut Vec<u8>, max: u64) -> io::Result<Line> {
        line.clear();
        self.reader.by_ref().take(max + 1).read_until(b'\n', line)?;
        Ok(match line.last() {
            None => Line::End,
            Some(b'\n') => Line::Whole,
            Some(_) if line.len() as u64 > max => Line::TooLong,
            Some(_) => Line::Whole,
        })
    }

    /// Counts the line in `line` as read, and passes over the rest of one that is too long.
    pub(super) fn advance(&mut self, line: &[u8], how: Line) -> io::Result<()> {
        self.hash.update(line);
        self.offset += line.len() as u64;
        if how == Line::TooLong {
            self.pass_over_rest()?;
        }
        self.lines += 1;
        Ok(())
    }

    fn pass_over_rest(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.reader.fill_buf()?;
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let len = end.map_or(bytes.len(), |end| end + 1);
            self.hash.update(&bytes[..len]);
            self.offset += len as u64;
            self.reader.consume(len);
            if len == 0 || end.is_some() {
                return Ok(());
            }
        }
    }

    /// Lines that count as read.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// What has been read, as a load notes it.
    pub(super) fn mark(&self, how: u32) -> KvLoad {
        let Input { offset, lines, .. } = *self;
        KvLoad { how, offset, lines, hash: words(&self.hash), begun: offset }
    }

    /// Bytes of the input that are counted.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of the input that are here, counted or not: for more of them one may have to wait.
    pub(super) fn received(&self) -> u64 {
        self.offset + self.reader.buffer().len() as u64
    }

    /// Whether all is read. Waits for a pipe to say.
    pub(super) fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.reader.fill_buf()?.is_empty())
    }

    /// Whether the other end of a pipe has nothing to read at the moment.
    pub(super) fn is_idle(&self) -> bool {
        let source = self.reader.get_ref();
        if self.start.is_some() || source.again.is_some() || !self.reader.buffer().is_empty() {
            return false;
        }
        let mut asked = [PollFd::new(&source.file, PollFlags::IN)];
        // Where the kernel can't tell, reading will.
        poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready == 0)
    }
}

fn words(hash: &Xxh3) -> [u64; 2] {
    let digest = hash.digest128();
    [digest as u64, (digest >> 64) as u64]
}
