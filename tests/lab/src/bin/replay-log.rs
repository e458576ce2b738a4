//! Replays the writes that the device-mapper target `log-writes` has logged onto a file, up to a mark. The result is
//! what a block device may have held at a power cut at that moment.
//!
//! Linux, Documentation/admin-guide/device-mapper/log-writes.rst: a log is a superblock and entries. Each entry is in a
//! sector of its own, and the sectors that were written follow it. A write is logged when a flush after it is complete;
//! a write with FUA is logged when it is complete itself. So each prefix of the log is a state that a power cut leaves.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
/// Bytes of an entry; the text of a mark follows.
const ENTRY_LEN: usize = 32;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;

/// Play what dm-log-writes has logged onto a new file.
#[derive(Parser)]
#[command(name = "replay-log")]
struct Arguments {
    /// The device with the log
    #[arg(long)]
    log: PathBuf,
    /// The file, which must not exist yet
    #[arg(long)]
    replay: PathBuf,
    /// The mark up to which it is done
    #[arg(long)]
    end_mark: String,
    /// Writes after the mark that are done too
    #[arg(long, default_value_t = 0)]
    beyond: u64,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let log = Log::open(&arguments.log).with_context(|| arguments.log.display().to_string())?;
    let target =
        File::create_new(&arguments.replay).with_context(|| arguments.replay.display().to_string())?;
    log.replay(&target, &arguments.end_mark, arguments.beyond)?;
    Ok(ExitCode::SUCCESS)
}

/// A log on a device.
struct Log {
    device: File,
    entries: u64,
    sector_len: u64,
}

impl Log {
    fn open(path: &Path) -> Result<Log> {
        let device = File::open(path)?;
        let mut bytes = [0; 28];
        device.read_exact_at(&mut bytes, 0)?;
        ensure!((word(&bytes, 0), word(&bytes, 1)) == (MAGIC, VERSION), "this is no log of dm-log-writes");
        let sector_len = u64::from(u32::from_le_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]));
        ensure!(sector_len.is_power_of_two() && sector_len >= 512, "sectors of {sector_len} bytes");
        Ok(Log { device, entries: word(&bytes, 2), sector_len })
    }

    /// Replays all writes before the mark `end`, and `beyond` writes after it.
    fn replay(&self, target: &File, end: &str, beyond: u64) -> Result<()> {
        let mut place = self.sector_len;
        let mut left = None;
        for _ in 0..self.entries {
            if left == Some(0) {
                break;
            }
            let mut sector = vec![0; self.sector_len as usize];
            self.device.read_exact_at(&mut sector, place)?;
            place += self.sector_len;
            let [start, count, flags, len] = [0, 1, 2, 3].map(|number| word(&sector, number));
            if flags & MARK != 0 {
                if sector[ENTRY_LEN..].starts_with(end.as_bytes()) && len == end.len() as u64 {
                    left = Some(beyond);
                }
                continue;
            }
            // A device may return anything for a discarded range: here, it keeps the old content.
            if flags & DISCARD == 0 {
                let mut data = vec![0; usize::try_from(count * self.sector_len)?];
                self.device.read_exact_at(&mut data, place)?;
                target.write_all_at(&data, start * self.sector_len)?;
                place += data.len() as u64;
            }
            left = left.map(|left| left - 1);
        }
        if left.is_none() {
            bail!("among {} entries of the log is no mark {end}", self.entries);
        }
        Ok(())
    }
}

/// Returns the word with this number, stored little-endian.
fn word(bytes: &[u8], number: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[number * 8 + index]))
}

#[cfg(test)]
mod test {
    use super::*;

    const SECTOR: usize = 512;

    fn entry(start: u64, count: u64, flags: u64, text: &str) -> Vec<u8> {
        let mut sector = [start, count, flags, text.len() as u64].map(u64::to_le_bytes).concat();
        sector.extend(text.as_bytes());
        sector.resize(SECTOR, 0);
        sector
    }

    /// Makes a log of three writes with marks between them, and a discard.
    fn log() -> Vec<u8> {
        let mut head = [MAGIC, VERSION, 6].map(u64::to_le_bytes).concat();
        head.extend((SECTOR as u32).to_le_bytes());
        head.resize(SECTOR, 0);
        let write = |start: u64, byte: u8| [entry(start, 1, 1, ""), vec![byte; SECTOR]].concat();
        [
            head,
            write(0, b'a'),
            entry(0, 0, MARK, "one"),
            write(2, b'b'),
            entry(0, 9, DISCARD, ""),
            entry(0, 0, MARK, "one-and-more"),
            write(0, b'c'),
        ]
        .concat()
    }

    fn replayed(end: &str, beyond: u64) -> Result<Vec<u8>> {
        let folder = tempfile::tempdir()?;
        let [log_path, target] = ["log", "target"].map(|name| folder.path().join(name));
        std::fs::write(&log_path, log())?;
        Log::open(&log_path)?.replay(&File::create_new(&target)?, end, beyond)?;
        Ok(std::fs::read(target)?.chunks(SECTOR).map(|sector| sector[0]).collect())
    }

    #[test]
    fn replay_stops_after_mark_and_extra_writes() {
        assert_eq!(replayed("one", 0).unwrap(), b"a");
        assert_eq!(replayed("one", 1).unwrap(), b"a\0b");
        assert_eq!(replayed("one-and-more", 0).unwrap(), b"a\0b");
        assert_eq!(replayed("one-and-more", 5).unwrap(), b"c\0b");
        assert!(replayed("two", 0).unwrap_err().to_string().contains("no mark two"));
    }

    #[test]
    fn invalid_log_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, [0; SECTOR]).unwrap();
        assert!(Log::open(&path).is_err());
    }
}
