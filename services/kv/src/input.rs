//! The text of a load: read line by line, hashed, and resumed where an earlier load ended.

use lode_layout::KvLoad;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take, Write};
use xxhash_rust::xxh3::Xxh3;

/// Bytes that are read at a time.
const READ_LEN: usize = 256 * 1024;
/// Longest wait for a pipe before the stop condition is tested again.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A file, a pipe or a terminal to load from. It lives no longer than the stop condition of the load.
pub struct Input<'a> {
    reader: BufReader<Source<'a>>,
    /// Offset in the file at which the input began; `None` if it can't be read again from there.
    start: Option<u64>,
    hash: Xxh3,
    /// Hash of the first line, once that has been read.
    first: [u64; 2],
    offset: u64,
    lines: u64,
}

/// Bytes of a pipe that were read for a comparison and are read once more, and then the rest of the input.
struct Source<'a> {
    replayed: Option<Take<File>>,
    file: File,
    /// True if the next read may have to wait.
    may_block: bool,
    /// Returns true when waiting must end.
    stopped: &'a dyn Fn() -> bool,
}

impl Source<'_> {
    /// Waits until there is something to read, or the end of the input.
    fn wait(&self) -> io::Result<()> {
        if !self.may_block {
            return Ok(());
        }
        loop {
            if (self.stopped)() {
                return Err(io::Error::other("reading was stopped"));
            }
            match self.poll(POLL_INTERVAL) {
                // The signal may have set the stop condition.
                Ok(0) | Err(Errno::INTR) => {}
                // If the kernel can't tell, the read will.
                Ok(_) | Err(_) => return Ok(()),
            }
        }
    }

    /// Returns the number of files, 0 or 1, that can be read without waiting, at once or within this time.
    fn poll(&self, within: Timespec) -> Result<usize, Errno> {
        poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&within))
    }
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(replayed) = &mut self.replayed {
            let len = replayed.read(into)?;
            if replayed.limit() == 0 {
                // Cleared now and not at the next read: that read may have to wait, and `is_idle` must know it.
                self.replayed = None;
            }
            if len > 0 || into.is_empty() {
                return Ok(len);
            }
        }
        self.wait()?;
        self.file.read(into)
    }
}

/// The result of reading a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The line is in the buffer, with its newline if it has one.
    Whole,
    /// The line has too many bytes. [`Input::advance`] passes over them.
    TooLong,
    /// There is no further line.
    End,
}

impl Input<'static> {
    /// Reads `file` from its current position.
    pub fn new(mut file: File) -> Input<'static> {
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        let start = if is_file { file.stream_position().ok() } else { None };
        let source = Source { replayed: None, file, may_block: !is_file, stopped: &|| false };
        let (hash, reader) = (Xxh3::new(), BufReader::with_capacity(READ_LEN, source));
        Input { reader, start, first: words(&hash), hash, offset: 0, lines: 0 }
    }
}

impl<'a> Input<'a> {
    /// Makes reading fail, instead of waiting for a pipe or a terminal, as soon as `stopped` returns true.
    pub(crate) fn stop_when(mut self, stopped: &'a dyn Fn() -> bool) -> Input<'a> {
        self.reader.get_mut().stopped = stopped;
        self
    }

    /// Returns true if this is the input of `load`, and passes over the part that `load` says is in the tree.
    /// Otherwise everything is still to be read.
    pub(crate) fn resume(&mut self, load: &KvLoad) -> io::Result<bool> {
        let mut spool = if self.start.is_none() { Some(tempfile::tempfile()?) } else { None };
        let only_first = load.offset == 0;
        let mut hash = Xxh3::new();
        let mut last = b'\n';
        let mut left = if only_first { load.begun } else { load.offset };
        while left > 0 {
            let bytes = self.reader.fill_buf()?;
            let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            let line_end = bytes.iter().position(|byte| *byte == b'\n').filter(|_| only_first);
            let bytes = line_end.map_or(bytes, |end| &bytes[..=end]);
            let Some(end) = bytes.last() else { break };
            last = *end;
            hash.update(bytes);
            if let Some(spool) = &mut spool {
                spool.write_all(bytes)?;
            }
            let len = bytes.len();
            self.reader.consume(len);
            left = if line_end.is_some() { 0 } else { left - len as u64 };
        }
        // A line that had no newline may have become a longer one since.
        let at_line_end = last == b'\n' || self.is_at_end()?;
        let is_same = left == 0 && words(&hash) == load.hash && at_line_end;
        if is_same && !only_first {
            (self.hash, self.offset, self.lines) = (hash, load.offset, load.lines);
        } else {
            self.rewind(spool)?;
        }
        Ok(is_same)
    }

    fn rewind(&mut self, spool: Option<File>) -> io::Result<()> {
        match (spool, self.start) {
            (Some(mut spool), _) => {
                spool.write_all(self.reader.buffer())?;
                self.reader.consume(self.reader.buffer().len());
                let len = spool.stream_position()?;
                spool.rewind()?;
                self.reader.get_mut().replayed = Some(spool.take(len)).filter(|spool| spool.limit() > 0);
            }
            (None, Some(start)) => {
                self.reader.consume(self.reader.buffer().len());
                self.reader.get_mut().file.seek(SeekFrom::Start(start))?;
            }
            (None, None) => unreachable!("what can't be read again has a spool"),
        }
        Ok(())
    }

    /// Reads the next line. The line counts as read only after a call of [`advance`](Input::advance).
    pub(crate) fn read_line(&mut self, line: &mut Vec<u8>, max: u64) -> io::Result<Line> {
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
    pub(crate) fn advance(&mut self, line: &[u8], how: Line) -> io::Result<()> {
        self.hash.update(line);
        self.offset += line.len() as u64;
        if how == Line::TooLong {
            self.skip_line_end()?;
        }
        if self.lines == 0 {
            self.first = words(&self.hash);
        }
        self.lines += 1;
        Ok(())
    }

    fn skip_line_end(&mut self) -> io::Result<()> {
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

    /// Returns the number of lines that count as read.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the hash by which a note of this progress identifies the input: that of the input before, or of the first
    /// line, or of no bytes as long as that has not been read.
    pub(crate) fn hash_of(&self, progress: &KvLoad) -> [u64; 2] {
        if progress.offset == 0 { self.first } else { progress.hash }
    }

    /// Returns the progress of a load that has loaded all lines that count as read.
    pub(crate) fn progress(&self, how: u32) -> KvLoad {
        let Input { offset, lines, .. } = *self;
        KvLoad { mode: how, offset, lines, hash: words(&self.hash), begun: offset }
    }

    /// Returns the number of bytes of the input that count as read.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of bytes that were received, counted or not. Further bytes may have to be waited for.
    pub(crate) fn received(&self) -> u64 {
        self.offset + self.reader.buffer().len() as u64
    }

    /// Returns true if the whole input is read. Waits until a pipe has more bytes or ends.
    pub(crate) fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.reader.fill_buf()?.is_empty())
    }

    /// Returns true if the input is a pipe that has neither a line nor the rest of one to read at the moment.
    pub(crate) fn is_idle(&self) -> bool {
        let source = self.reader.get_ref();
        if self.start.is_some() || source.replayed.is_some() || self.reader.buffer().contains(&b'\n') {
            return false;
        }
        // If the kernel can't tell, the read will.
        source.poll(Timespec { tv_sec: 0, tv_nsec: 0 }) == Ok(0)
    }
}

fn words(hash: &Xxh3) -> [u64; 2] {
    let digest = hash.digest128();
    [digest as u64, (digest >> 64) as u64]
}
