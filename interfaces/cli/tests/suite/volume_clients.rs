//! Ways to reach `lode volume serve`, and more judges of it: sockets of systemd, TCP, files without a header, nbdsh, nbdfuse,
//! qemu-nbd, and a disk whose syncs fail.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{command, lode, text};
use crate::volume_server::{CMD_FLUSH, CMD_WRITE, Client, Server, create, tool};
use lode_powercut::{Disk, Survival, Volume};
use lode_testing::skip;
use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The sockets of a unit of systemd are passed as descriptors from 3 on. They stay open for the next start.
#[test]
fn inherited_sockets_are_served_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(&folder, "btt");
    let socket = folder.path().join("s");
    let unix = UnixListener::bind(&socket).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    for _ in 0..2 {
        let script = "exec 3<&0 4<&2 0</dev/null 2>/dev/null
            LISTEN_FDS=2 LISTEN_PID=$$ exec \"$0\" \"$@\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_lode"), "volume", "serve", text(&path)]);
        shell.stdin(OwnedFd::from(unix.try_clone().unwrap()));
        shell.stderr(OwnedFd::from(tcp.try_clone().unwrap()));
        let (mut server, line) = Server::spawn(&mut shell, socket.clone());
        assert!(line.starts_with(&format!("unix:{}", text(&socket))), "{line:?}");
        assert!(tool("nbdinfo", &[&server.uri("btt")]).contains("is_read_only: false"));
        tool("nbdinfo", &[&format!("nbd://127.0.0.1:{port}/btt")]);
        assert!(server.end().success());
        assert!(socket.exists(), "it belongs to systemd");
    }
    lode(["volume", "serve", text(&path)]).failure(2, &["--nbd unix:SOCKET", "is required"]);
}

#[test]
fn tcp_port_0_is_announced_with_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(&folder, "atomic");
    let arguments = ["volume", "serve", "--nbd", "127.0.0.1:0", "--json", text(&path)];
    let (mut server, line) = Server::spawn(&mut command(arguments), folder.path().join("none"));
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["exports"][0], "atomic");
    let uri = format!("nbd://{}/atomic", line["address"].as_str().unwrap());
    assert!(!uri.contains(":0/"), "{uri}");
    let data = folder.path().join("data");
    fs::write(&data, [9; 1 << 20]).unwrap();
    tool("nbdcopy", &[text(&data), &uri]);
    tool("qemu-io", &["-f", "raw", "-r", "-c", "read -P 9 0 1M", &uri]);
    assert!(server.end().success());
}

/// The bytes of the file from its first one on, as other programs see them.
#[test]
fn file_without_header_is_served_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let content: Vec<u8> = (0..1 << 20).map(|at| (at / 999) as u8).collect();
    fs::write(&path, &content).unwrap();
    let socket = folder.path().join("s");
    let address = format!("unix:{}", text(&socket));
    lode(["volume", "serve", "--nbd", &address, text(&path)])
        .failure(1, &["there is no volume", "or serve the file as it is with --format raw"]);
    let server = Server::start(socket, &["--format", "raw", text(&path)]);
    let back = folder.path().join("back");
    tool("nbdcopy", &[&server.uri("image"), text(&back)]);
    assert!(fs::read(&back).unwrap() == content);
    tool("qemu-io", &["-f", "raw", "-c", "write -P 3 1000 5000", "-c", "flush", &server.uri("")]);
    server.stop();
    let found = fs::read(&path).unwrap();
    assert!(found[..1000] == content[..1000] && found[6000..] == content[6000..]);
    assert_eq!(found[1000..6000], [3; 5000]);
}

/// What libnbd can ask for and the other clients do not.
#[test]
fn nbdsh_finds_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(&folder, "atomic");
    let server = Server::start(folder.path().join("s"), &[&format!("disk={}", text(&path))]);
    let script = r#"
import os, errno
def fails(number, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, error
        return
    raise AssertionError("no error")

uri = os.environ["URI"]
h.set_opt_mode(True)
h.add_meta_context("base:allocation")
h.connect_uri(uri)
names = []
h.opt_list(lambda name, description: names.append(name))
assert names == ["disk"], names
contexts = []
h.opt_list_meta_context(contexts.append)
assert contexts == ["base:allocation"], contexts
h.set_export_name("none")
fails(errno.ENOENT, h.opt_info)
h.set_export_name("disk")
h.opt_info()
h.set_full_info(True)
h.opt_go()
assert h.get_structured_replies_negotiated() and h.can_meta_context("base:allocation")
assert h.can_fua() and h.can_flush() and h.can_trim() and h.can_zero() and h.can_cache()
assert h.can_multi_conn() and h.can_df() and h.can_fast_zero() and not h.is_read_only()
size = h.get_size()

h.pwrite(b"\x05" * 8192, 4096, nbd.CMD_FLAG_FUA)
found = []
def extents(context, offset, entries, error):
    found.extend(entries)
h.block_status(16384, 0, extents)
assert found == [4096, 3, 8192, 0, 4096, 3], found
found.clear()
h.block_status(16384, 0, extents, nbd.CMD_FLAG_REQ_ONE)
assert found == [4096, 3], found
h.cache(8192, 0)
fails(errno.ENOTSUP, lambda: h.zero(4096, 4096, nbd.CMD_FLAG_FAST_ZERO))
h.trim(4096, 4096)
h.zero(4096, 8192, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
h.zero(8192, 4096, nbd.CMD_FLAG_FAST_ZERO)
chunks = []
h.pread_structured(8192, 4096, lambda data, at, status, error: chunks.append((data, at)), nbd.CMD_FLAG_DF)
assert chunks == [(bytes(8192), 4096)], chunks

# What libnbd would not let us ask for.
h.set_strict_mode(0)
fails(errno.EINVAL, lambda: h.pread(2, size - 1))
fails(errno.ENOSPC, lambda: h.pwrite(b"xy", size - 1))
fails(errno.ENOSPC, lambda: h.zero(2, size - 1))
fails(errno.EINVAL, lambda: h.trim(2, size - 1))
fails(errno.EINVAL, lambda: h.flush(0x8000))
h.pwrite(b"whole", size - 5)

# A flush of one connection, after the write of another.
g = nbd.NBD()
g.connect_uri(uri)
g.pwrite(b"\x07" * 512, 1000)
assert h.pread(512, 1000) == b"\x07" * 512
h.flush()
g.shutdown()
h.shutdown()
"#;
    let mut nbdsh = Command::new("nbdsh");
    // Debian's Python is the one that has libnbd.
    nbdsh.args(["-c", script]).env("URI", server.uri("disk")).env("PATH", "/usr/bin:/bin");
    let output = nbdsh.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.stop();
}

/// A block of atomic blocks whose content has rotted: a read of it fails, all else goes on, and a write heals it.
#[test]
fn rotten_blocks_fail_their_reads_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(&folder, "atomic");
    let socket = folder.path().join("s");
    let server = Server::start(socket.clone(), &[text(&path)]);
    let write =
        ["write -P 1 0 4k", "write -P 2 4k 4k", "write -P 3 8k 4k"].map(|write| ["-c", write]).concat();
    tool("qemu-io", &[&["-f", "raw"], &write[..], &[&server.uri("")]].concat());
    server.stop();
    let mut media = fs::read(&path).unwrap();
    let at = media.windows(4096).step_by(512).position(|bytes| bytes == [2; 4096]).unwrap() * 512;
    media[at + 1000] ^= 1;
    fs::write(&path, media).unwrap();
    let server = Server::start(socket, &[text(&path)]);
    let run = |commands: &[&str]| {
        let commands = commands.iter().flat_map(|command| ["-c", command]);
        let output =
            Command::new("qemu-io").args(["-f", "raw"]).args(commands).arg(server.uri("")).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let said =
        run(&["read -P 1 0 4k", "read 4k 4k", "read 0 12k", "read -P 3 8k 4k", "write -P 4 12k 4k", "flush"]);
    assert_eq!(said.matches("Input/output error").count(), 2, "{said}");
    assert_eq!(said.matches("read 4096/4096 bytes").count(), 2, "{said}");
    assert!(said.contains("wrote 4096/4096 bytes") && !said.contains("verification failed"), "{said}");
    let said = run(&["write -P 5 4k 4k", "read -P 5 4k 4k"]);
    assert!(said.contains("read 4096/4096 bytes") && !said.contains("failed"), "{said}");
    server.stop();
    lode(["volume", "check", text(&path)]).success();
}

/// The jobs of docs/fio, with less to write: they run as they are described, and leave the volumes sound.
#[test]
fn fio_jobs_run_on_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fio");
    let run = |name: &str, variables: &[(&str, &str)]| {
        let job = fs::read_to_string(jobs.join(name)).unwrap();
        let mut short = job.clone();
        for (long, less) in
            [("size=1g", "size=8m"), ("ramp_time=3", "ramp_time=0"), ("runtime=7", "runtime=1")]
        {
            assert!(job.contains(long), "{name} has no {long}");
            short = short.replace(long, less);
        }
        let path = folder.path().join(name);
        fs::write(&path, short).unwrap();
        let mut fio = Command::new("fio");
        fio.args(["--output-format=json", text(&path)]).envs(variables.iter().copied());
        let output = fio.current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        let report = String::from_utf8(output.stdout).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report[report.find('{').unwrap()..]).unwrap();
        assert_eq!(report["jobs"][0]["error"], 0, "{name}");
        assert!(report["jobs"][0]["write"]["total_ios"].as_u64().unwrap() > 0, "{name}");
    };
    let file = folder.path().join("file");
    run("file.fio", &[("FILE", text(&file))]);
    let blocks = create(&folder, "atomic");
    let server = Server::start(folder.path().join("s"), &[text(&blocks)]);
    run("block.fio", &[("SOCKET", text(&server.socket))]);
    server.stop();
    let dax = folder.path().join("dax");
    let made =
        ["--json", "volume", "create", text(&dax), "--size", "20MiB", "--format", "raw", "--class", "dax"];
    lode(made).success();
    let data_off = lode(["--json", "volume", "info", text(&dax)]).json()["data_off"].to_string();
    run("dax.fio", &[("VOLUME", text(&dax)), ("DATA_OFF", &data_off)]);
    for path in [blocks, dax] {
        lode(["volume", "check", text(&path)]).success();
    }
}

/// The holes of a raw volume, as clients see them.
#[test]
fn nbdinfo_maps_the_holes_of_raw_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(&folder, "raw");
    let server = Server::start(folder.path().join("s"), &[text(&path)]);
    let mut client = Client::connect(&server.socket);
    client.send(CMD_WRITE, 0, 0, 4 << 20, &vec![7; 1 << 20]);
    assert_eq!(client.reply().0, 0);
    drop(client);
    let map = tool("nbdinfo", &["--map", &server.uri("")]);
    let extents: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(extents[0], ["0", "4194304", "3", "hole,zero"], "{map}");
    assert_eq!(extents[1], ["4194304", "1048576", "0", "data"], "{map}");
    assert_eq!((extents.len(), extents[2][0], extents[2][3]), (3, "5242880", "hole,zero"), "{map}");
    server.stop();
}

#[test]
fn qemu_nbd_lists_exports() {
    let folder = tempfile::tempdir().unwrap();
    let (atomic, btt) = (create(&folder, "atomic"), create(&folder, "btt"));
    let server = Server::start(folder.path().join("s"), &[text(&atomic), text(&btt)]);
    let listed = tool("qemu-nbd", &["--list", "--socket", text(&server.socket)]);
    for part in ["exports available: 2", "export: 'atomic'", "export: 'btt'", "base:allocation", "multi"] {
        assert!(listed.contains(part), "no {part:?} in {listed}");
    }
    server.stop();
}

/// Mounts a file of zeros, to learn whether that is possible here.
pub(crate) fn has_fuse(folder: &Path, test: &str) -> bool {
    let mounted = Volume::mount(Disk::new(vec![0; 4096], u64::MAX), folder);
    if let Err(error) = &mounted {
        skip(test, format_args!("no FUSE file system: {error}"));
    }
    mounted.is_ok()
}

/// A mounted nbdfuse, which is ended when it is dropped.
pub(crate) struct Mounted {
    child: Child,
    pub(crate) file: PathBuf,
}

impl Mounted {
    /// Mounts an export as a file in `folder`.
    pub(crate) fn new(folder: &Path, uri: &str) -> Mounted {
        let (file, pid) = (folder.join("mounted"), folder.join("pid"));
        fs::write(&file, "").unwrap();
        // It prints nothing, and writes its number when the file is there.
        let child = Command::new("nbdfuse").args(["-P", text(&pid), text(&file), uri]).spawn().unwrap();
        let mut mounted = Mounted { child, file };
        while !pid.exists() {
            assert_eq!(mounted.child.try_wait().unwrap(), None, "nbdfuse has ended");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        mounted
    }

    /// Unmounts it, which ends nbdfuse.
    pub(crate) fn end(mut self) {
        tool("fusermount3", &["-u", text(&self.file)]);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // It has ended, and left no mount, if the test unmounted it.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("fusermount3").args(["-u", "-z", text(&self.file)]).status();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[test]
fn nbdfuse_mounts_a_volume() {
    let folder = tempfile::tempdir().unwrap();
    if !has_fuse(folder.path(), "nbdfuse_mounts_a_volume") {
        return;
    }
    let path = create(&folder, "atomic");
    let server = Server::start(folder.path().join("s"), &[text(&path)]);
    let nbdfuse = Mounted::new(folder.path(), &server.uri(""));
    let mounted = fs::OpenOptions::new().read(true).write(true).open(&nbdfuse.file).unwrap();
    mounted.write_all_at(&[7; 10_000], 3000).unwrap();
    mounted.sync_all().unwrap();
    let mut back = [0; 16_384];
    mounted.read_exact_at(&mut back, 0).unwrap();
    assert!(back[..3000] == [0; 3000] && back[3000..13_000] == [7; 10_000] && back[13_000..] == [0; 3384]);
    drop(mounted);
    nbdfuse.end();
    server.stop();
    lode(["volume", "check", text(&path)]).success();
}

/// The disk under the volume fails from one request on. From then on no client writes, all of them read, and what was flushed
/// before is on the disk.
#[test]
fn failed_sync_stops_the_writes_of_all_clients() {
    let folder = tempfile::tempdir().unwrap();
    if !has_fuse(folder.path(), "failed_sync_stops_the_writes_of_all_clients") {
        return;
    }
    for format in ["btt", "btt2", "pmemblk", "atomic", "raw"] {
        let is_table = !["atomic", "raw"].contains(&format);
        let disk = Disk::new(fs::read(create(&folder, format)).unwrap(), u64::MAX);
        let volume = Volume::mount(disk, folder.path()).unwrap();
        let name = format!("disk={}", text(&volume.path()));
        let mut server = Server::start(folder.path().join(format!("s-{format}")), &[&name]);
        let (mut one, mut two) = (Client::connect(&server.socket), Client::connect(&server.socket));
        one.send(CMD_WRITE, 0, 1, 0, &[1; 4096]);
        assert_eq!(one.reply(), (0, 1));
        two.send(CMD_FLUSH, 0, 2, 0, &[]);
        assert_eq!(two.reply(), (0, 2));
        volume.disk().turn_off();
        one.send(CMD_WRITE, 0, 3, 4096, &[2; 4096]);
        // A table is synced before it answers; the others keep the write in the page cache.
        let error = if is_table { 5 } else { 0 };
        assert_eq!(one.reply(), (error, 3), "{format}: a write before the flush");
        one.send(CMD_FLUSH, 0, 4, 0, &[]);
        assert_eq!(one.reply(), (5, 4), "{format}");
        for client in [&mut one, &mut two, &mut Client::connect(&server.socket)] {
            client.send(CMD_WRITE, 0, 5, 0, &[3; 4096]);
            assert_eq!(client.reply(), (5, 5), "{format}: a write");
            client.send(CMD_WRITE, 0, 6, 100, &[3; 7]);
            assert_eq!(client.reply(), (5, 6), "{format}: a part of a block");
            client.send(CMD_FLUSH, 0, 7, 0, &[]);
            assert_eq!(client.reply(), (5, 7), "{format}: a flush");
        }
        tool("qemu-io", &["-f", "raw", "-r", "-c", "read -P 1 0 4096", &server.uri("disk")]);
        assert!(!server.end().success(), "{format}: the flush at the end fails, too");
        let image = folder.path().join(format!("image-{format}"));
        fs::write(&image, volume.disk().image(Survival::Old)).unwrap();
        let server = Server::start(folder.path().join(format!("i-{format}")), &[text(&image)]);
        tool("qemu-io", &["-f", "raw", "-r", "-c", "read -P 1 0 4096", &server.uri("")]);
        server.stop();
    }
}
