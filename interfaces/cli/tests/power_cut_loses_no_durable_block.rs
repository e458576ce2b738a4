//! `lode volume serve` on a disk that drops unsynced writes: each block that a client of NBD knows to be durable survives, and
//! a block of a table or of atomic blocks is never torn.
//!
//! In a build with `--cfg lode_bugs` the test detects servers that omit a sync.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;
#[path = "suite/volume_journal.rs"]
mod volume_journal;
#[path = "suite/volume_server.rs"]
#[allow(dead_code, reason = "the suite uses the rest")]
mod volume_server;

use anyhow::{Result, ensure};
use lode_powercut::{Disk, Requests, Survival, Volume, write_back_randomly};
use lode_testing::{scaled, seed, skip};
use program::{command, lode, text};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use tempfile::TempDir;
use volume_journal::{BLOCK, Journal, content};
use volume_server::{CMD_FLAG_FUA, CMD_FLUSH, CMD_TRIM, CMD_WRITE, CMD_WRITE_ZEROES, Client, Server};

/// Largest number of requests of the server to the disk before the power is cut.
const REQUESTS_MAX: u64 = 300;
/// Images of a trial in which each sector is old or new, besides those in which all are.
const SAMPLES: u64 = 2;
/// Few, so that most are written again and again.
const BLOCKS: usize = 40;
/// Greatest number of writes in flight.
const IN_FLIGHT_MAX: usize = 12;
/// Batches after which the power is cut in any case: a server that omits its syncs has few requests.
const BATCHES_MAX: usize = 1000;

/// Cuts the power when it is dropped, also by a panic: other threads wait for that.
struct PowerOff<'d>(&'d Disk);

impl Drop for PowerOff<'_> {
    fn drop(&mut self) {
        self.0.turn_off();
    }
}

/// Writes, zeroes and trims batches of blocks on two connections until a reply is an error, or there were enough. Either of them flushes what both have written.
fn write_until_cut(server: &Server, journal: &mut Journal, random: &mut fastrand::Rng) {
    let mut clients = [Client::connect(&server.socket), Client::connect(&server.socket)];
    let mut answered = Vec::new();
    let mut value = 0;
    for _ in 0..BATCHES_MAX {
        let mut blocks: Vec<usize> = (0..BLOCKS).collect();
        random.shuffle(&mut blocks);
        let mut in_flight = [Vec::new(), Vec::new()];
        // Half of the batches are of one connection: a flush of the other one has no writes of its own then.
        let lone = random.bool().then(|| random.usize(..2));
        for block in blocks.into_iter().take(random.usize(1..=IN_FLIGHT_MAX)) {
            value += 1;
            let (index, is_fua) = (lone.unwrap_or_else(|| random.usize(..2)), random.u8(..24) == 0);
            let flags = if is_fua { CMD_FLAG_FUA } else { 0 };
            let off = (block * BLOCK) as u64;
            match random.u8(..8) {
                zeros @ ..2 => {
                    journal.sent_zeros(block, value);
                    let code = if zeros == 0 { CMD_TRIM } else { CMD_WRITE_ZEROES };
                    clients[index].send_range(code, flags, value, off, BLOCK as u32);
                }
                _ => {
                    journal.sent(block, value);
                    clients[index].send(CMD_WRITE, flags, value, off, &content(value));
                }
            }
            in_flight[index].push((block, value, is_fua));
        }
        for (client, writes) in clients.iter_mut().zip(in_flight) {
            for (block, value, is_fua) in writes {
                let (error, cookie) = client.reply();
                assert_eq!(cookie, value);
                if error != 0 {
                    return;
                }
                if is_fua {
                    journal.durable(block, value);
                }
                answered.push((block, value));
            }
        }
        if random.u8(..4) == 0 {
            let client = &mut clients[random.usize(..2)];
            client.send(CMD_FLUSH, 0, 0, 0, &[]);
            if client.reply().0 != 0 {
                return;
            }
            answered.drain(..).for_each(|(block, value)| journal.durable(block, value));
        }
    }
}

/// Compares an image with the journal, by an export and by a server that recovers it, and checks it before and after.
fn verify(folder: &TempDir, image: &Path, journal: &Journal) -> Result<()> {
    let back = folder.path().join("back");
    let sound = |arguments: &[&str]| -> Result<()> {
        let ran = lode(arguments);
        ensure!(ran.code == Some(0), "{arguments:?}: {ran:?}");
        Ok(())
    };
    sound(&["volume", "check", text(image)])?;
    // The server has recovered the image when it listens.
    let mut server = Server::start(folder.path().join("v"), &[text(image)]);
    server.child.kill()?;
    server.child.wait()?;
    sound(&["volume", "export", text(image), text(&back)])?;
    journal.compare(&fs::read(&back)?)?;
    fs::remove_file(back)?;
    sound(&["volume", "check", text(image)])
}

/// Cuts the power in the middle of one request of a server. Returns a description of the trial, and the fault of the first
/// wrong image.
fn trial(
    folder: &TempDir,
    new: &[u8],
    format: &str,
    bug: Option<&str>,
    random: &mut fastrand::Rng,
) -> std::io::Result<(String, Result<()>)> {
    let cut_at = random.u64(1..=REQUESTS_MAX);
    let volume = Volume::mount(Disk::new(new.to_vec(), cut_at), folder.path())?;
    let socket: PathBuf = folder.path().join("s");
    let mut journal = Journal::new(BLOCKS, format);
    let write_back_seed = random.u64(..);
    let file = File::options().read(true).write(true).open(volume.path()).unwrap();
    thread::scope(|scope| {
        // Also where the server has given up before the cut.
        let _off = PowerOff(volume.disk());
        scope.spawn(|| write_back_randomly(volume.disk(), &file, write_back_seed));
        let address = format!("unix:{}", text(&socket));
        let name = format!("disk={}", text(&volume.path()));
        let mut serve = command(["volume", "serve", &name, "--nbd", &address]);
        serve.envs(bug.map(|name| ("LODE_BUG", name))).stderr(Stdio::null());
        let (server, line) = Server::spawn(&mut serve, socket.clone());
        // The power may be cut while the server opens the volume: then it ends.
        if !line.is_empty() {
            write_until_cut(&server, &mut journal, random);
        }
        drop(server);
    });
    let disk = volume.disk();
    let Requests { writes, persists } = disk.requests();
    let what = format!(
        "{format}, cut at request {cut_at}: {writes} writes, {persists} syncs, {} sectors in doubt",
        disk.sectors_in_doubt()
    );
    let samples = (0..SAMPLES).map(|_| Survival::Sampled(random.u64(..)));
    for survival in [Survival::Old, Survival::New].into_iter().chain(samples) {
        let image = folder.path().join("image");
        fs::write(&image, disk.image(survival)).unwrap();
        if let Err(error) = verify(folder, &image, &journal) {
            return Ok((format!("{what}; {survival:?}: {error:#}"), Err(error)));
        }
    }
    Ok((what, Ok(())))
}

/// Runs trials until one loses something. Returns its description.
fn first_loss(test: &str, format: &str, rounds: u64, bug: Option<&str>) -> Option<String> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let new = folder.path().join("new");
    // A table is not smaller.
    let size = if ["btt", "btt2", "pmemblk"].contains(&format) { "17MiB" } else { "2MiB" };
    lode(["volume", "create", text(&new), "--size", size, "--format", format]).success();
    let new = fs::read(&new).unwrap();
    let mut random = fastrand::Rng::with_seed(seed(73));
    for round in 0..rounds {
        match trial(&folder, &new, format, bug, &mut random) {
            Err(error) => {
                skip(test, format_args!("no FUSE file system can be mounted: {error}"));
                return None;
            }
            Ok((what, result)) => {
                println!("LODE_SEED={}, round {round}: {what}", seed(73));
                if result.is_err() {
                    return Some(what);
                }
            }
        }
    }
    assert!(bug.is_none(), "{test}: not found");
    None
}

#[test]
fn durable_blocks_survive_power_cut_btt() {
    assert_eq!(first_loss("durable_blocks_survive_power_cut_btt", "btt", scaled(8), None), None);
}

#[test]
fn durable_blocks_survive_power_cut_btt2() {
    assert_eq!(first_loss("durable_blocks_survive_power_cut_btt2", "btt2", scaled(8), None), None);
}

#[test]
fn durable_blocks_survive_power_cut_pmemblk() {
    assert_eq!(first_loss("durable_blocks_survive_power_cut_pmemblk", "pmemblk", scaled(8), None), None);
}

#[test]
fn durable_blocks_survive_power_cut_atomic() {
    assert_eq!(first_loss("durable_blocks_survive_power_cut_atomic", "atomic", scaled(8), None), None);
}

#[test]
fn durable_blocks_survive_power_cut_raw() {
    assert_eq!(first_loss("durable_blocks_survive_power_cut_raw", "raw", scaled(8), None), None);
}

#[cfg(lode_bugs)]
#[test]
fn unsynced_tables_are_detected() {
    first_loss("unsynced_tables_are_detected", "btt", 40, Some(lode_pmem::bugs::DRAIN_NOT_SYNCED.name()));
}

#[cfg(lode_bugs)]
#[test]
fn unsynced_records_are_detected() {
    // One sync takes records and contents.
    first_loss("unsynced_records_are_detected", "atomic", 40, Some(lode_pmem::bugs::DRAIN_NOT_SYNCED.name()));
}

#[cfg(lode_bugs)]
#[test]
fn unsynced_raw_blocks_are_detected() {
    first_loss("unsynced_raw_blocks_are_detected", "raw", 40, Some(lode_pmem::bugs::DRAIN_NOT_SYNCED.name()));
}

/// The flush of one connection must cover the writes of the other.
#[cfg(lode_bugs)]
#[test]
fn flushes_of_own_writes_are_detected() {
    // It must meet a cut between a flush of one connection alone and the next sync: about one round in 7.
    first_loss("flushes_of_own_writes_are_detected", "atomic", 100, Some("flush-of-own-writes"));
}
