//! Volumes behind `lode volume serve`, with other people's clients as judges: libnbd, qemu and fio.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{RunResult, command, lode, text};
use lode_testing::{scaled, seed};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const FORMATS: [&str; 5] = ["btt", "btt2", "pmemblk", "atomic", "raw"];
const BLOCK: usize = 4096;

/// A running server, which is killed when it is dropped.
struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    fn start(socket: PathBuf, arguments: &[&str]) -> Server {
        let address = format!("unix:{}", text(&socket));
        let all = ["volume", "serve", "--nbd", &address].into_iter().chain(arguments.iter().copied());
        let mut child = command(all).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with(&address), "{line:?}");
        Server { child, socket }
    }

    fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", text(&self.socket))
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        assert!(!self.socket.exists(), "the socket is removed");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended if it was stopped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn create(folder: &TempDir, format: &str) -> PathBuf {
    let path = folder.path().join(format);
    lode(["volume", "create", text(&path), "--size", "20MiB", "--format", format]).success();
    path
}

#[track_caller]
fn tool(name: &str, arguments: &[&str]) -> String {
    let output =
        Command::new(name).args(arguments).output().unwrap_or_else(|error| panic!("{name}: {error}"));
    RunResult::of(output).success()
}

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

const CMD_WRITE: u16 = 1;
const CMD_FLUSH: u16 = 3;
const CMD_FLAG_FUA: u16 = 1;

/// A client of a few lines, other than the server's own code.
struct Client(UnixStream);

impl Client {
    /// Connects to the first export.
    fn connect(socket: &Path) -> Client {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        // Fixed newstyle without zeros; EXPORT_NAME of the empty name.
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        Client(stream)
    }

    fn send(&mut self, code: u16, flags: u16, cookie: u64, offset: u64, payload: &[u8]) {
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(&cookie.to_be_bytes());
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        bytes.extend_from_slice(payload);
        self.0.write_all(&bytes).unwrap();
    }

    /// Returns error and cookie of the next reply.
    fn reply(&mut self) -> (u32, u64) {
        self.try_reply().unwrap()
    }

    fn try_reply(&mut self) -> io::Result<(u32, u64)> {
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply)?;
        assert_eq!(reply[..4], [0x67, 0x44, 0x66, 0x98]);
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        Ok((error, u64::from_be_bytes(reply[8..].try_into().unwrap())))
    }
}

/// The step that makes a write durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// The answer alone, at durability `line`.
    Answer,
    /// The answer of a write with FUA.
    Fua,
    /// The answer of a flush.
    Flush,
}

/// Kills the server in the middle of writes, with 8 of them in flight. The journal is that of this process: the value of each
/// block that is durable, and all that may have been written since.
#[test]
fn killed_servers_lose_no_durable_write() {
    let mut random = fastrand::Rng::with_seed(seed(71));
    for format in ["btt", "atomic"] {
        for proof in [Proof::Answer, Proof::Fua, Proof::Flush] {
            kill_servers(format, proof, &mut random);
        }
    }
}

fn kill_servers(format: &str, proof: Proof, random: &mut fastrand::Rng) {
    let folder = tempfile::tempdir().unwrap();
    let path = create(&folder, format);
    let durability = if proof == Proof::Answer { "line" } else { "auto" };
    let arguments = [text(&path), "--durability", durability];
    let blocks = 200;
    let mut durable = vec![0_u64; blocks];
    let mut sent = vec![Vec::new(); blocks];
    let mut cookie = 0;
    for _ in 0..scaled(10).max(3) {
        let mut server = Server::start(folder.path().join("s"), &arguments);
        verify(&folder, &server, &mut durable, &mut sent);
        let mut client = Client::connect(&server.socket);
        let (mut in_flight, mut answered) = (VecDeque::new(), Vec::new());
        let flags = if proof == Proof::Fua { CMD_FLAG_FUA } else { 0 };
        let kill_at = cookie + random.u64(50..400);
        while cookie < kill_at {
            cookie += 1;
            let block = random.usize(0..blocks);
            client.send(CMD_WRITE, flags, cookie, (block * BLOCK) as u64, &content(cookie));
            sent[block].push(cookie);
            in_flight.push_back((block, cookie));
            if in_flight.len() == 8 {
                let write = in_flight.pop_front().unwrap();
                assert_eq!(client.reply(), (0, write.1));
                answered.push(write);
            }
            if proof != Proof::Flush || cookie % 50 == 0 {
                if proof == Proof::Flush {
                    flush(&mut client, &mut in_flight, &mut answered);
                }
                for (block, cookie) in answered.drain(..) {
                    acknowledge(&mut durable[block], &mut sent[block], cookie);
                }
            }
        }
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        while let Ok((error, cookie)) = client.try_reply() {
            let (block, expected) = in_flight.pop_front().unwrap();
            assert_eq!((error, cookie), (0, expected));
            if proof != Proof::Flush {
                acknowledge(&mut durable[block], &mut sent[block], cookie);
            }
        }
        lode(["volume", "check", text(&path)]).success();
    }
    let server = Server::start(folder.path().join("s"), &arguments);
    verify(&folder, &server, &mut durable, &mut sent);
    server.stop();
}

/// Waits for the writes in flight, then for a flush.
fn flush(client: &mut Client, in_flight: &mut VecDeque<(usize, u64)>, answered: &mut Vec<(usize, u64)>) {
    for write in in_flight.drain(..) {
        assert_eq!(client.reply(), (0, write.1));
        answered.push(write);
    }
    client.send(CMD_FLUSH, 0, u64::MAX, 0, &[]);
    assert_eq!(client.reply(), (0, u64::MAX));
}

/// Returns the content of the write with this number; 0 stands for no write.
fn content(cookie: u64) -> Vec<u8> {
    cookie.to_be_bytes().repeat(BLOCK / 8)
}

/// Notes that a write was answered: no older one is left to be found.
fn acknowledge(newest: &mut u64, sent: &mut Vec<u64>, cookie: u64) {
    *newest = (*newest).max(cookie);
    sent.retain(|sent| sent > newest);
}

/// Compares each block with the journal: the last durable value, or one that was sent after it, whole.
fn verify(folder: &TempDir, server: &Server, durable: &mut [u64], sent: &mut [Vec<u64>]) {
    let back = folder.path().join("back");
    tool("nbdcopy", &[&server.uri(""), text(&back)]);
    let bytes = fs::read(back).unwrap();
    for (block, bytes) in bytes.chunks(BLOCK).take(durable.len()).enumerate() {
        let found = u64::from_be_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes == content(found), "block {block} is torn");
        assert!(
            found == durable[block] || sent[block].contains(&found),
            "block {block}: {found}, durable {}",
            durable[block]
        );
        durable[block] = found;
        sent[block].clear();
    }
}
