//! Volumes behind `lode volume serve`, with other people's clients as judges: libnbd, qemu and fio.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{lode, text};
use crate::volume_journal::{BLOCK, Journal, content};
use crate::volume_server::{
    CMD_FLAG_FUA, CMD_FLUSH, CMD_RESIZE, CMD_TRIM, CMD_WRITE, CMD_WRITE_ZEROES, Client, Server, create, tool,
};
use lode_testing::{SmallDisk, scaled, seed};
use std::collections::VecDeque;
use std::fs;
use std::os::unix::net::UnixListener;
use tempfile::TempDir;

const FORMATS: [&str; 5] = ["btt", "btt2", "pmemblk", "atomic", "raw"];

#[test]
fn clients_round_trip_content_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let paths = FORMATS.map(|format| create(&folder, format));
    let server = Server::start(folder.path().join("s"), &paths.each_ref().map(|path| text(path)));
    let listed = tool("nbdinfo", &["--list", &server.uri("")]);
    for format in FORMATS {
        assert!(listed.contains(&format!("export=\"{format}\"")), "{listed}");
        let uri = server.uri(format);
        let size: usize = tool("nbdinfo", &["--size", &uri]).trim().parse().unwrap();
        let content: Vec<u8> =
            (0..size).map(|at| if at / 50_000 % 3 == 0 { 0 } else { (at / 7) as u8 }).collect();
        let (data, back) = (folder.path().join("data"), folder.path().join("back"));
        fs::write(&data, &content).unwrap();
        tool("nbdcopy", &[text(&data), &uri]);
        tool("nbdcopy", &[&uri, text(&back)]);
        assert!(fs::read(&back).unwrap() == content, "{format}");
        tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", text(&data), &uri]);
        let zeros = format!("write -z 0 {size}");
        tool("qemu-io", &["-f", "raw", "-c", &zeros, "-c", "read -P 0 0 1M", &uri]);
        tool("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", text(&data), &uri]);
        tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", text(&data), &uri]);
        // Parts of blocks, across their borders.
        let commands =
            ["write -P 7 100 1000", "read -P 7 100 1000", "write -P 9 4000 9000", "read -P 9 4000 9000"];
        let commands = commands.iter().flat_map(|command| ["-c", command]);
        tool("qemu-io", &["-f", "raw"].into_iter().chain(commands).chain([uri.as_str()]).collect::<Vec<_>>());
    }
    server.stop();
    for path in paths {
        lode(["volume", "check", text(&path)]).success();
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(&folder, "atomic");
    let server = Server::start(folder.path().join("s"), &[text(&path)]);
    let uri = format!("--uri={}", server.uri(""));
    let job = "--name=j --ioengine=nbd --rw=randwrite --bs=4k --size=4M --iodepth=32 --verify=crc32c";
    let arguments: Vec<_> = job.split(' ').chain([uri.as_str(), "--verify_state_save=0"]).collect();
    tool("fio", &arguments);
    server.stop();
}

/// A full disk under a sparse volume fails the requests that need space with ENOSPC. They succeed once there is space.
#[test]
fn full_disk_fails_the_requests_that_need_space() {
    let name = "full_disk_fails_the_requests_that_need_space";
    if let Some(disk) = SmallDisk::mount(name, 12 << 20) {
        fill_and_free(&disk, 4 << 20, "none");
    }
    // A file system with large folios asks for the space of many pages at a time.
    if let Some(disk) = SmallDisk::mount_ext4(name, 24 << 20) {
        fill_and_free(&disk, 8 << 20, "commit");
    }
}

/// The last page of a file is a part of one. A full disk under it is no damage either.
#[test]
fn full_disk_under_the_end_of_a_file_is_no_damage() {
    let Some(disk) = SmallDisk::mount("full_disk_under_the_end_of_a_file_is_no_damage", 1 << 20) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = disk.folder().join("file");
    fs::File::create(&path).unwrap().set_len(20 * 4096 + 1536).unwrap();
    let filler = disk.folder().join("filler");
    let _ = fs::write(&filler, vec![1; 1 << 20]);
    let arguments = [text(&path), "--format", "raw", "--durability", "none"];
    let server = Server::start(folder.path().join("s"), &arguments);
    let mut client = Client::connect(&server.socket);
    for offset in [5 * 4096, 20 * 4096 + 512] {
        client.send(CMD_WRITE, 0, offset, offset, &[7; 512]);
        assert_eq!(client.reply(), (28, offset), "ENOSPC");
    }
    fs::remove_file(&filler).unwrap();
    for offset in [5 * 4096, 20 * 4096 + 512] {
        client.send(CMD_WRITE, 0, offset, offset, &[7; 512]);
        assert_eq!(client.reply(), (0, offset));
    }
    drop(client);
    server.stop();
}

/// Writes to volumes larger than the disk until it is full, then frees `spare` bytes.
fn fill_and_free(disk: &SmallDisk, spare: usize, durability: &str) {
    const ENOSPC: u32 = 28;
    const LEN: usize = 1 << 18;
    let folder = tempfile::tempdir().unwrap();
    for format in ["btt", "pmemblk", "raw"] {
        let path = disk.folder().join(format);
        let create = ["volume", "create", text(&path), "--size", "40MiB", "--format", format];
        lode(create.iter().chain(&["--durability", durability])).success();
        let filler = disk.folder().join("filler");
        fs::write(&filler, vec![1; spare]).unwrap();
        let server = Server::start(folder.path().join("s"), &[text(&path), "--durability", durability]);
        let mut client = Client::connect(&server.socket);
        let mut write = |number: usize| {
            client.send(CMD_WRITE, 0, 0, (number * LEN) as u64, &vec![number as u8 + 1; LEN]);
            let written = client.reply().0;
            client.send(CMD_FLUSH, 0, 1, 0, &[]);
            assert_eq!(client.reply().0, 0, "{format}, {durability}: what was written has its space");
            written
        };
        // From both ends: a place far from the others needs space of the map, too.
        let places = (0..64).flat_map(|number| [number, 140 - number]);
        let mut done = Vec::new();
        let mut full = Vec::new();
        for number in places {
            match write(number) {
                0 => done.push(number),
                error => {
                    assert_eq!(error, ENOSPC, "{format}, {durability}");
                    full.push(number);
                }
            }
            if full.len() == 8 {
                break;
            }
        }
        assert_eq!(full.len(), 8, "{format}: the disk is smaller than the volume");
        fs::remove_file(&filler).unwrap();
        for number in &full {
            assert_eq!(write(*number), 0, "{format}, {durability}: there is space");
        }
        for number in done.into_iter().chain(full) {
            let content = client.read((number * LEN) as u64, LEN as u32);
            assert!(content.iter().all(|byte| *byte == number as u8 + 1), "{format}, {durability}: {number}");
        }
        drop(client);
        server.stop();
        lode(["volume", "check", text(&path)]).success();
        fs::remove_file(&path).unwrap();
    }
}

/// An import fills the log of a volume of atomic blocks with long records. They do not hinder later openings.
#[test]
fn killed_servers_of_full_volumes_leave_them_usable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let create = ["volume", "create", text(&path), "--size", "16MiB", "--format", "atomic"];
    lode(create.into_iter().chain(["--block-size", "512"])).success();
    let capacity = lode(["--json", "volume", "info", text(&path)]).json()["capacity"].as_u64().unwrap();
    let mut random = fastrand::Rng::with_seed(seed(5));
    let content: Vec<u8> = (0..capacity).map(|_| random.u8(..)).collect();
    let file = folder.path().join("content");
    fs::write(&file, &content).unwrap();
    lode(["volume", "import", text(&path), text(&file)]).success();
    for _ in 0..2 {
        drop(Server::start(folder.path().join("s"), &[text(&path)]));
        lode(["volume", "check", text(&path)]).success();
    }
    let back = folder.path().join("back");
    lode(["volume", "export", text(&path), text(&back)]).success();
    assert!(fs::read(&back).unwrap() == content);
}

/// A client may flush and force unit access on every export, as the protocol's flags say: where no cache is, both cost nothing. Such
/// an export keeps an answered write without them when its server is killed.
#[test]
fn exports_take_flushes_at_every_durability() {
    const HAS_FLAGS: u16 = 1;
    const READ_ONLY: u16 = 1 << 1;
    const SEND_FLUSH_FUA_TRIM_ZEROES: u16 = 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6;
    const CAN_MULTI_CONN: u16 = 1 << 8;
    let folder = tempfile::tempdir().unwrap();
    for format in ["btt", "btt2", "pmemblk", "atomic", "raw"] {
        let path = create(&folder, format);
        for durability in ["byte", "line", "commit"] {
            let socket = folder.path().join("s");
            let mut server = Server::start(socket, &[text(&path), "--durability", durability]);
            let (mut client, flags) = Client::with_flags(&server.socket);
            let want = HAS_FLAGS | SEND_FLUSH_FUA_TRIM_ZEROES | CAN_MULTI_CONN;
            assert_eq!(flags & (want | READ_ONLY), want, "{format} {durability}");
            client.send(CMD_WRITE, 0, 1, 0, &[7; 4096]);
            client.send(CMD_WRITE, CMD_FLAG_FUA, 2, 4096, &[8; 4096]);
            client.send(CMD_FLUSH, 0, 3, 0, &[]);
            client.send(CMD_WRITE, 0, 4, 8192, &durability.repeat(1024).as_bytes()[..4096]);
            client.send(CMD_WRITE, 0, 5, 3 * 4096, &[9; 8192]);
            client.send_range(CMD_TRIM, CMD_FLAG_FUA, 6, 3 * 4096, 4096);
            client.send_range(CMD_WRITE_ZEROES, 0, 7, 4 * 4096, 4096);
            for cookie in 1..=7 {
                assert_eq!(client.reply(), (0, cookie), "{format} {durability}");
            }
            server.child.kill().unwrap();
            server.child.wait().unwrap();
            let server = Server::start(folder.path().join("r"), &[text(&path), "--durability", durability]);
            let read = Client::connect(&server.socket).read(0, 5 * 4096);
            let last = durability.repeat(1024).into_bytes();
            assert!(
                read == [&[7; 4096][..], &[8; 4096], &last[..4096], &[0; 8192]].concat(),
                "{format} {durability}"
            );
            server.stop();
        }
    }
}

#[test]
fn sockets_without_server_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(&folder, "atomic");
    let socket = folder.path().join("s");
    drop(UnixListener::bind(&socket).unwrap());
    let server = Server::start(socket.clone(), &[text(&path)]);
    let other = create(&folder, "btt");
    let address = format!("unix:{}", text(&socket));
    let arguments = ["volume", "serve", text(&other), "--nbd", &address];
    lode(arguments).failure(1, &["another server listens there"]);
    server.stop();
    fs::write(&socket, "no socket").unwrap();
    lode(arguments).failure(1, &["exists and is no socket"]);
    assert_eq!(fs::read(&socket).unwrap(), b"no socket");
}

/// A client grows the export that it uses. Other clients see the size when they connect, and a kill takes nothing back.
#[test]
fn served_volumes_grow() {
    const LEN: u64 = 24 << 20;
    let folder = tempfile::tempdir().unwrap();
    for format in ["atomic", "raw"] {
        let path = create(&folder, format);
        let capacity =
            || lode(["--json", "volume", "info", text(&path)]).json()["capacity"].as_u64().unwrap();
        let old = capacity();
        assert!(old < LEN);
        let server = Server::start(folder.path().join("s"), &[text(&path)]);
        let mut client = Client::connect(&server.socket);
        let last = old / BLOCK as u64 * BLOCK as u64 - BLOCK as u64;
        client.send(CMD_WRITE, CMD_FLAG_FUA, 1, last, &[7; BLOCK]);
        assert_eq!(client.reply(), (0, 1));
        client.send(CMD_WRITE, 0, 2, LEN - BLOCK as u64, &[7; BLOCK]);
        assert_eq!(client.reply(), (28, 2), "ENOSPC: past the end");
        for (cookie, asked, error) in [(3, LEN, 0), (4, old, 22), (5, 1 << 62, 22), (6, u64::MAX, 22)] {
            client.send(CMD_RESIZE, 0, cookie, asked, &[]);
            assert_eq!(client.reply(), (error, cookie), "{format}: from {old} to {asked}");
        }
        assert!(
            client.read(last + BLOCK as u64, 1 << 20).iter().all(|byte| *byte == 0),
            "new blocks are zeros"
        );
        assert!(client.read(LEN - (1 << 20), 1 << 20).iter().all(|byte| *byte == 0));
        client.send(CMD_WRITE, CMD_FLAG_FUA, 7, LEN - BLOCK as u64, &[9; BLOCK]);
        assert_eq!(client.reply(), (0, 7));
        let seen: u64 = tool("nbdinfo", &["--size", &server.uri("")]).trim().parse().unwrap();
        assert!((LEN..LEN + (2 << 20)).contains(&seen), "{format}: {seen}");
        drop((client, server));
        lode(["volume", "check", text(&path)]).success();
        assert_eq!(capacity(), seen);
        let server = Server::start(folder.path().join("s"), &["--read-only", text(&path)]);
        let mut client = Client::connect(&server.socket);
        assert_eq!(client.read(LEN - BLOCK as u64, BLOCK as u32), [9; BLOCK]);
        assert_eq!(client.read(last, BLOCK as u32), [7; BLOCK]);
        client.send(CMD_RESIZE, 0, 8, 2 * LEN, &[]);
        assert_eq!(client.reply(), (1, 8), "EPERM");
        drop(client);
        server.stop();
    }
    let path = create(&folder, "btt");
    let server = Server::start(folder.path().join("s"), &[text(&path)]);
    let mut client = Client::connect(&server.socket);
    client.send(CMD_RESIZE, 0, 9, LEN, &[]);
    assert_eq!(client.reply(), (95, 9), "ENOTSUP");
    drop(client);
    server.stop();
}

/// A disk without space for a larger volume refuses to grow it. The volume keeps its size and content, and grows later.
#[test]
fn full_disk_refuses_growth_of_served_volumes() {
    const OLD: u64 = 20 << 20;
    const NEW: u64 = 40 << 20;
    let name = "full_disk_refuses_growth_of_served_volumes";
    let folder = tempfile::tempdir().unwrap();
    for format in ["atomic", "raw"] {
        let Some(disk) = SmallDisk::mount(name, 64 << 20) else { return };
        let path = disk.folder().join(format);
        let size = OLD.to_string();
        let create = ["volume", "create", text(&path), "--size", &size, "--format", format];
        lode(create.iter().chain(&["--durability", "none"])).success();
        let filler = disk.folder().join("filler");
        let server = Server::start(folder.path().join("s"), &[text(&path), "--durability", "none"]);
        let capacity = || tool("nbdinfo", &["--size", &server.uri("")]).trim().parse::<u64>().unwrap();
        let old = capacity();
        let mut client = Client::connect(&server.socket);
        client.send(CMD_WRITE, CMD_FLAG_FUA, 1, 0, &[7; BLOCK]);
        assert_eq!(client.reply(), (0, 1));
        fs::write(&filler, vec![1; 64 << 20]).unwrap_err();
        for cookie in [2, 3] {
            client.send(CMD_RESIZE, 0, cookie, NEW, &[]);
            assert_eq!(client.reply(), (28, cookie), "{format}: ENOSPC");
            assert_eq!(capacity(), old, "{format}");
        }
        assert_eq!(client.read(0, BLOCK as u32), [7; BLOCK], "{format}");
        client.send(CMD_WRITE, CMD_FLAG_FUA, 4, 0, &[8; BLOCK]);
        assert_eq!(client.reply(), (0, 4), "{format}");
        fs::remove_file(&filler).unwrap();
        client.send(CMD_RESIZE, 0, 5, NEW, &[]);
        assert_eq!(client.reply(), (0, 5), "{format}");
        assert!(capacity() >= NEW, "{format}");
        client.send(CMD_WRITE, CMD_FLAG_FUA, 6, NEW - BLOCK as u64, &[9; BLOCK]);
        assert_eq!(client.reply(), (0, 6), "{format}");
        drop(client);
        server.stop();
        lode(["volume", "check", text(&path)]).success();
    }
}

#[test]
fn read_only_exports_refuse_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(&folder, "atomic");
    let server = Server::start(folder.path().join("s"), &["--read-only", text(&path)]);
    assert!(tool("nbdinfo", &[&server.uri("atomic")]).contains("is_read_only: true"));
    let mut client = Client::connect(&server.socket);
    client.send(CMD_WRITE, 0, 1, 0, &[1; BLOCK]);
    assert_eq!(client.reply(), (1, 1), "EPERM");
    server.stop();
}

/// Kills the server in the middle of writes, with 8 of them in flight, at least 10 times for each format. A client that
/// connects again does not send an answered write again, so none may be lost, flushed or not.
fn kill_servers(format: &str) {
    let mut random = fastrand::Rng::with_seed(seed(71));
    let mut kills = 0;
    for durability in ["line", "commit"] {
        let rounds = scaled(10).div_ceil(2);
        kill_server(format, durability, rounds, &mut random);
        kills += rounds;
    }
    println!("{format}: {kills} kills");
}

#[test]
fn killed_servers_lose_no_answered_write_btt() {
    kill_servers("btt");
}

#[test]
fn killed_servers_lose_no_answered_write_btt2() {
    kill_servers("btt2");
}

#[test]
fn killed_servers_lose_no_answered_write_pmemblk() {
    kill_servers("pmemblk");
}

#[test]
fn killed_servers_lose_no_answered_write_atomic() {
    kill_servers("atomic");
}

#[test]
fn killed_servers_lose_no_answered_write_raw() {
    kill_servers("raw");
}

fn kill_server(format: &str, durability: &str, rounds: u64, random: &mut fastrand::Rng) {
    let folder = tempfile::tempdir().unwrap();
    let path = create(&folder, format);
    let arguments = [text(&path), "--durability", durability];
    let mut journal = Journal::new(200, format);
    let mut cookie = 0;
    for _ in 0..rounds {
        let mut server = Server::start(folder.path().join("s"), &arguments);
        verify(&folder, &server, &mut journal);
        let mut client = Client::connect(&server.socket);
        let mut in_flight = VecDeque::new();
        let kill_at = cookie + random.u64(50..400);
        while cookie < kill_at {
            cookie += 1;
            let block = random.usize(0..journal.len());
            let flags = if random.u8(..10) == 0 { CMD_FLAG_FUA } else { 0 };
            client.send(CMD_WRITE, flags, cookie, (block * BLOCK) as u64, &content(cookie));
            journal.sent(block, cookie);
            in_flight.push_back((block, cookie));
            if in_flight.len() == 8 {
                let (block, cookie) = in_flight.pop_front().unwrap();
                assert_eq!(client.reply(), (0, cookie));
                journal.durable(block, cookie);
            }
            if random.u8(..50) == 0 {
                flush(&mut client, &mut in_flight, &mut journal);
            }
        }
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        while let Ok((error, cookie)) = client.try_reply() {
            let (block, expected) = in_flight.pop_front().unwrap();
            assert_eq!((error, cookie), (0, expected));
            journal.durable(block, cookie);
        }
        lode(["volume", "check", text(&path)]).success();
    }
    let server = Server::start(folder.path().join("s"), &arguments);
    verify(&folder, &server, &mut journal);
    server.stop();
}

/// Waits for the writes in flight, then for a flush.
fn flush(client: &mut Client, in_flight: &mut VecDeque<(usize, u64)>, journal: &mut Journal) {
    for (block, cookie) in in_flight.drain(..) {
        assert_eq!(client.reply(), (0, cookie));
        journal.durable(block, cookie);
    }
    client.send(CMD_FLUSH, 0, u64::MAX, 0, &[]);
    assert_eq!(client.reply(), (0, u64::MAX));
}

/// Compares the volume with the journal.
#[track_caller]
fn verify(folder: &TempDir, server: &Server, journal: &mut Journal) {
    let back = folder.path().join("back");
    tool("nbdcopy", &[&server.uri(""), text(&back)]);
    let bytes = fs::read(back).unwrap();
    journal.compare(&bytes).unwrap();
    journal.adopt(&bytes);
}
