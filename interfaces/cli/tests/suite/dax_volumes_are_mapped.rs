//! A DAX volume is mapped by programs while it is served as blocks.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{lode, text};
use crate::volume_clients::{Mounted, has_fuse};
use crate::volume_server::{CMD_WRITE, Client, Server, tool};
use lode_layout::PoolOffset;
use lode_pmem::{Durability, Mapping, Medium};
use lode_testing::{scaled, seed};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const O_DIRECT: i32 = 0x4000;
/// Bytes of the volume that the test uses: few, so that accesses meet.
const AREA: u64 = 64 << 10;
const LEN_MAX: u64 = 9000;

/// The ways to a DAX volume.
struct Ways {
    /// A program that has mapped the file.
    mapping: Mapping,
    /// Reads and writes of the file, through the kernel's cache.
    file: File,
    /// Offset of block 0 in both of them.
    data_off: u64,
    /// A client of the export.
    client: Client,
    /// The export as a file, opened with O_DIRECT.
    mounted: Option<File>,
    /// The path of that file: the cache that the kernel keeps for nbdfuse is as new as the opening of the file.
    mounted_at: PathBuf,
}

impl Ways {
    fn count(&self) -> usize {
        if self.mounted.is_some() { 5 } else { 3 }
    }

    fn name(way: usize) -> &'static str {
        ["mapping", "file", "NBD", "O_DIRECT through nbdfuse", "cached through nbdfuse"][way]
    }

    fn write(&mut self, way: usize, at: u64, bytes: &[u8]) {
        match way {
            0 => self.mapping.store(PoolOffset::new(self.data_off + at), bytes),
            1 => self.file.write_all_at(bytes, self.data_off + at).unwrap(),
            2 => {
                self.client.send(CMD_WRITE, 0, 0, at, bytes);
                assert_eq!(self.client.reply(), (0, 0));
            }
            3 => self.mounted.as_ref().unwrap().write_all_at(bytes, at).unwrap(),
            _ => opened(&self.mounted_at, 0).write_all_at(bytes, at).unwrap(),
        }
    }

    fn read(&mut self, way: usize, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        match way {
            0 => {
                let from = PoolOffset::new(self.data_off + at);
                self.mapping.memory().reading(|memory| memory.read(from, &mut bytes)).unwrap();
            }
            1 => self.file.read_exact_at(&mut bytes, self.data_off + at).unwrap(),
            2 => bytes = self.client.read(at, len as u32),
            3 => self.mounted.as_ref().unwrap().read_exact_at(&mut bytes, at).unwrap(),
            _ => opened(&self.mounted_at, 0).read_exact_at(&mut bytes, at).unwrap(),
        }
        bytes
    }
}

fn opened(path: &Path, flags: i32) -> File {
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).unwrap()
}

/// Each write is seen at once in every way, whichever way it was made in.
#[test]
fn mapped_cached_and_uncached_access_are_coherent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dax");
    let create = ["volume", "create", text(&path), "--size", "16MiB", "--format", "raw", "--class", "dax"];
    lode(create).success();
    let info = lode(["--json", "volume", "info", text(&path)]).json();
    let data_off = info["data_off"].as_u64().unwrap();
    assert_eq!((&info["class"], data_off % (2 << 20)), (&"dax".into(), 0));
    let server = Server::start(folder.path().join("s"), &[text(&path)]);
    let nbdfuse = has_fuse(folder.path(), "mapped_cached_and_uncached_access_are_coherent")
        .then(|| Mounted::new(folder.path(), &server.uri("")));
    let mut ways = Ways {
        mapping: Mapping::options().durability(Durability::Commit).open(&path).unwrap(),
        file: opened(&path, 0),
        data_off,
        client: Client::connect(&server.socket),
        mounted: nbdfuse.as_ref().map(|nbdfuse| opened(&nbdfuse.file, O_DIRECT)),
        mounted_at: folder.path().join("mounted"),
    };
    let mut rng = fastrand::Rng::with_seed(seed(7));
    let mut model = vec![0; AREA as usize];
    for round in 0..scaled(600) {
        let (writer, len) = (rng.usize(..ways.count()), rng.u64(1..LEN_MAX));
        let at = rng.u64(..AREA - len);
        let bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        ways.write(writer, at, &bytes);
        model[at as usize..][..bytes.len()].copy_from_slice(&bytes);
        for reader in 0..ways.count() {
            let (from, to) =
                (at.saturating_sub(rng.u64(..LEN_MAX)), (at + len + rng.u64(..LEN_MAX)).min(AREA));
            let found = ways.read(reader, from, (to - from) as usize);
            assert!(
                found == model[from as usize..to as usize],
                "round {round}, seed {}: {} does not see {len} bytes at {at} that {} wrote",
                seed(7),
                Ways::name(reader),
                Ways::name(writer)
            );
        }
    }
    // A trim through the export is seen by the mapping, and a store into the hole by the export.
    let blocks = |offset: u64| format!("{offset} 64k");
    tool("qemu-io", &["-f", "raw", "-c", &format!("discard {}", blocks(0)), &server.uri("")]);
    assert!(ways.read(0, 0, AREA as usize).iter().all(|byte| *byte == 0));
    ways.write(0, 5000, b"mapped");
    assert_eq!(ways.read(2, 4998, 10), b"\0\0mapped\0\0");
    drop(ways.mounted.take());
    if let Some(nbdfuse) = nbdfuse {
        nbdfuse.end();
    }
    server.stop();
    lode(["volume", "check", text(&path)]).success();
}
