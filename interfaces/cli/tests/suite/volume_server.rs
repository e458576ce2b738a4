//! A running `lode volume serve`, and clients of it.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::program::{RunResult, command, lode, text};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use tempfile::TempDir;

/// A running server, which is killed when it is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    /// Where it listens, if that is a unix socket that it made.
    pub(crate) socket: PathBuf,
    /// A server that can't print its next address ends.
    _out: BufReader<ChildStdout>,
}

impl Server {
    pub(crate) fn start(socket: PathBuf, arguments: &[&str]) -> Server {
        let address = format!("unix:{}", text(&socket));
        let all = ["volume", "serve", "--nbd", &address].into_iter().chain(arguments.iter().copied());
        let (server, line) = Server::spawn(&mut command(all), socket);
        assert!(line.starts_with(&address), "{line:?}");
        server
    }

    /// Starts a server, and returns the first line that it prints.
    pub(crate) fn spawn(command: &mut Command, socket: PathBuf) -> (Server, String) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        (Server { child, socket, _out: out }, line)
    }

    pub(crate) fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", text(&self.socket))
    }

    pub(crate) fn stop(mut self) {
        assert!(self.end().success());
        assert!(!self.socket.exists(), "the socket is removed");
    }

    /// Ends the server by a signal.
    pub(crate) fn end(&mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended if it was stopped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn create(folder: &TempDir, format: &str) -> PathBuf {
    let path = folder.path().join(format);
    lode(["volume", "create", text(&path), "--size", "20MiB", "--format", format]).success();
    path
}

#[track_caller]
pub(crate) fn tool(name: &str, arguments: &[&str]) -> String {
    let output =
        Command::new(name).args(arguments).output().unwrap_or_else(|error| panic!("{name}: {error}"));
    RunResult::of(output).success()
}

pub(crate) const CMD_WRITE: u16 = 1;
pub(crate) const CMD_FLUSH: u16 = 3;
pub(crate) const CMD_TRIM: u16 = 4;
pub(crate) const CMD_WRITE_ZEROES: u16 = 6;
pub(crate) const CMD_RESIZE: u16 = 8;
pub(crate) const CMD_FLAG_FUA: u16 = 1;

/// A client of a few lines, other than the server's own code.
pub(crate) struct Client(UnixStream);

impl Client {
    /// Connects to the first export.
    pub(crate) fn connect(socket: &Path) -> Client {
        Client::with_flags(socket).0
    }

    /// Connects to the first export, and returns its transmission flags, too.
    pub(crate) fn with_flags(socket: &Path) -> (Client, u16) {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        // Fixed newstyle without zeros; EXPORT_NAME of the empty name.
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        (Client(stream), u16::from_be_bytes([export[8], export[9]]))
    }

    pub(crate) fn send(&mut self, code: u16, flags: u16, cookie: u64, offset: u64, payload: &[u8]) {
        self.send_of(code, flags, cookie, offset, payload.len() as u32, payload);
    }

    /// Sends a command for a range without a payload.
    pub(crate) fn send_range(&mut self, code: u16, flags: u16, cookie: u64, offset: u64, len: u32) {
        self.send_of(code, flags, cookie, offset, len, &[]);
    }

    fn send_of(&mut self, code: u16, flags: u16, cookie: u64, offset: u64, len: u32, payload: &[u8]) {
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(&cookie.to_be_bytes());
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(payload);
        self.0.write_all(&bytes).unwrap();
    }

    /// Reads bytes of the export.
    pub(crate) fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&len.to_be_bytes());
        self.0.write_all(&bytes).unwrap();
        assert_eq!(self.reply(), (0, 0));
        let mut content = vec![0; len as usize];
        self.0.read_exact(&mut content).unwrap();
        content
    }

    /// Returns error and cookie of the next reply.
    pub(crate) fn reply(&mut self) -> (u32, u64) {
        self.try_reply().unwrap()
    }

    pub(crate) fn try_reply(&mut self) -> io::Result<(u32, u64)> {
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply)?;
        assert_eq!(reply[..4], [0x67, 0x44, 0x66, 0x98]);
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        Ok((error, u64::from_be_bytes(reply[8..].try_into().unwrap())))
    }
}
