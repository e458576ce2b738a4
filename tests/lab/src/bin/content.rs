//! Writes content that follows from a number to files, block devices and device-DAX nodes, and compares them with it. This machine
//! and guests write and find the same.
//!
//! `fill` writes all bytes. `write` writes spans that follow from another number: the start, the end, and others between them, of
//! which the first ones are whole sectors, and go past the page cache of a block device. `check` expects what both have left.

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, ValueEnum};
use rustix::fs::OFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr;

/// Bytes that are read or written at a time.
const PIECE: u64 = 1 << 20;
/// Alignment of memory that is written past the page cache.
const ALIGN: usize = 4096;
/// Number of spans, number of those that are whole sectors, and length of the longest in bytes.
const SPANS: u64 = 7;
const WHOLE_SPANS: u64 = 4;
const LONGEST: u64 = 48_000;

/// Write content that follows from a number, or compare with it.
#[derive(Parser)]
#[command(name = "content")]
struct Arguments {
    verb: Verb,
    /// A file, a block device or a device-DAX node
    path: PathBuf,
    /// Length of it in bytes
    len: u64,
    /// The number of all bytes; without it, `check` compares the spans alone
    #[arg(long)]
    filled: Option<u64>,
    /// The number of the spans
    #[arg(long)]
    written: Option<u64>,
    /// Bytes of a sector
    #[arg(long, default_value_t = 512)]
    sector: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Verb {
    /// Write all bytes
    Fill,
    /// Write the spans
    Write,
    /// Compare the bytes
    Check,
}

/// Bytes that are written at a time.
struct Span {
    at: u64,
    len: u64,
    /// The number of the content.
    number: u64,
    /// True if it is whole sectors.
    is_whole: bool,
}

/// A medium of any kind.
enum Medium {
    File(File),
    /// A mapping of a device-DAX node, which lasts as long as the process.
    Mapping(*mut u8),
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    run(&arguments).with_context(|| arguments.path.display().to_string())
}

fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { verb, path, len, filled, written, sector } = arguments;
    ensure!(len % sector == 0 && *len > 2 * LONGEST, "it is too short, or ends within a sector");
    let spans = written.map(|number| spans(number, *len, *sector)).unwrap_or_default();
    match verb {
        Verb::Fill => fill(&Medium::open(path, *len, false)?, *len, filled.context("--filled is missing")?),
        Verb::Write => spans.iter().try_for_each(|span| {
            Medium::open(path, *len, span.is_whole)?.write(span.at, &content(span.number, 0, span.len))
        }),
        Verb::Check if filled.is_none() && spans.is_empty() => bail!("--filled and --written are missing"),
        Verb::Check => check(&Medium::open(path, *len, false)?, *len, *filled, &spans),
    }
}

fn fill(medium: &Medium, len: u64, number: u64) -> Result<()> {
    (0..len)
        .step_by(PIECE as usize)
        .try_for_each(|at| medium.write(at, &content(number, at, PIECE.min(len - at))))
}

/// Compares all bytes, or without the number of all only the spans.
fn check(medium: &Medium, len: u64, filled: Option<u64>, spans: &[Span]) -> Result<()> {
    for at in (0..len).step_by(PIECE as usize) {
        let end = len.min(at + PIECE);
        if filled.is_none() && spans.iter().all(|span| span.at >= end || span.at + span.len <= at) {
            continue;
        }
        let found = medium.read(at, end - at)?;
        let mut want = filled.map_or_else(|| found.clone(), |number| content(number, at, end - at));
        // Later spans may have replaced parts of earlier ones.
        for span in spans {
            let (first, last) = (span.at.max(at), (span.at + span.len).min(end));
            if first < last {
                want[(first - at) as usize..(last - at) as usize].copy_from_slice(&content(
                    span.number,
                    first - span.at,
                    last - first,
                ));
            }
        }
        // A comparison of all is fast in an emulated machine.
        if found != want {
            let differing: Vec<usize> = (0..found.len()).filter(|byte| found[*byte] != want[*byte]).collect();
            bail!("byte {} differs, and {} in its MiB", at + differing[0] as u64, differing.len());
        }
    }
    Ok(())
}

/// Returns the spans of a number. The first is the start, and the last the end.
fn spans(number: u64, len: u64, sector: u64) -> Vec<Span> {
    let random = |index: u64, limit: u64| word(number, index) % limit;
    let span = |index: u64| {
        let is_whole = index < WHOLE_SPANS;
        let unit = if is_whole { sector } else { 1 };
        let span_len = unit * (1 + random(3 * index, LONGEST / unit));
        let at = match index {
            0 => 0,
            _ if index == SPANS - 1 => len - span_len,
            _ => unit * random(3 * index + 1, (len - span_len) / unit),
        };
        Span { at, len: span_len, number: word(number, 3 * index + 2), is_whole }
    };
    (0..SPANS).map(span).collect()
}

/// Returns bytes of the content of a number, from byte `at`.
fn content(number: u64, at: u64, len: u64) -> Vec<u8> {
    let (first, before) = (at / 8, (at % 8) as usize);
    let mut bytes = vec![0; before + len as usize];
    for (index, part) in (first..).zip(bytes.chunks_mut(8)) {
        part.copy_from_slice(&word(number, index).to_le_bytes()[..part.len()]);
    }
    bytes.split_off(before)
}

/// Returns a word of a number's content: SplitMix64.
fn word(number: u64, index: u64) -> u64 {
    let mut word = number.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Medium {
    /// Opens a medium. A file that does not exist is made. A block device is written past the page cache if `is_direct`.
    fn open(path: &Path, len: u64, is_direct: bool) -> Result<Medium> {
        let mut options = File::options();
        options.read(true).write(true);
        let kind = path.metadata().map(|metadata| metadata.file_type()).ok();
        if kind.is_none() {
            options.create(true);
        }
        if kind.is_some_and(|kind| kind.is_char_device()) {
            let (file, access) = (options.open(path)?, ProtFlags::READ | ProtFlags::WRITE);
            // SAFETY: a new mapping, at an address that the kernel chooses.
            let start = unsafe { mmap(ptr::null_mut(), len as usize, access, MapFlags::SHARED, &file, 0) }?;
            return Ok(Medium::Mapping(start.cast()));
        }
        if is_direct && kind.is_some_and(|kind| kind.is_block_device()) {
            options.custom_flags(OFlags::DIRECT.bits() as i32);
        }
        Ok(Medium::File(options.open(path)?))
    }

    fn read(&self, at: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        match self {
            Medium::File(file) => file.read_exact_at(&mut bytes, at)?,
            // SAFETY: the callers stay within the length that is mapped, and no other process has the node.
            Medium::Mapping(start) => unsafe {
                ptr::copy_nonoverlapping(start.wrapping_add(at as usize), bytes.as_mut_ptr(), bytes.len());
            },
        }
        Ok(bytes)
    }

    /// Writes bytes, and syncs the file.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Medium::File(file) => {
                let mut room = vec![0; bytes.len() + ALIGN];
                let start = room.as_ptr().align_offset(ALIGN);
                let aligned = &mut room[start..start + bytes.len()];
                aligned.copy_from_slice(bytes);
                file.write_all_at(aligned, at)?;
                file.sync_data()?;
            }
            // SAFETY: the callers stay within the length that is mapped, and no other process has the node.
            Medium::Mapping(start) => unsafe {
                ptr::copy_nonoverlapping(bytes.as_ptr(), start.wrapping_add(at as usize), bytes.len());
            },
        }
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const LEN: u64 = 3 << 20;

    #[test]
    fn check_finds_one_wrong_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("medium");
        let medium = Medium::open(&path, LEN, false).unwrap();
        fill(&medium, LEN, 7).unwrap();
        assert!(check(&medium, LEN, Some(7), &[]).is_ok());
        assert!(check(&medium, LEN, Some(8), &[]).is_err());
        let spans = spans(9, LEN, 512);
        assert!(check(&medium, LEN, None, &spans).is_err());
        for span in &spans {
            medium.write(span.at, &content(span.number, 0, span.len)).unwrap();
        }
        check(&medium, LEN, Some(7), &spans).unwrap();
        for at in [0, LEN - 1] {
            let byte = medium.read(at, 1).unwrap();
            medium.write(at, &[!byte[0]]).unwrap();
            for filled in [Some(7), None] {
                let error = check(&medium, LEN, filled, &spans).unwrap_err().to_string();
                assert!(error.starts_with(&format!("byte {at} differs")), "{error}");
            }
            medium.write(at, &byte).unwrap();
        }
        check(&medium, LEN, Some(7), &spans).unwrap();
    }

    #[test]
    fn spans_are_whole_sectors_or_any_bytes() {
        for number in 0..1000 {
            let spans = spans(number, LEN, 4096);
            assert_eq!((spans[0].at, spans[6].at + spans[6].len), (0, LEN));
            assert!(spans[..4].iter().all(|span| (span.at | span.len) % 4096 == 0 && span.is_whole));
            assert!(
                spans.iter().all(|span| span.len > 0 && span.len <= LONGEST && span.at + span.len <= LEN)
            );
        }
    }

    #[test]
    fn content_at_any_byte_is_a_part_of_the_whole() {
        let whole = content(3, 0, 100);
        for at in 0..20 {
            assert_eq!(content(3, at, 70), whole[at as usize..at as usize + 70]);
        }
    }
}
