//! A client that shares no code with the server, and can say anything.

use lode_nbd::{Address, Export, Listener, Server};
use lode_testing::volume::MemoryDevice;
use lode_volume::BlockDevice;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const BLOCK: usize = 512;
pub(crate) const BLOCKS: u64 = 128;
pub(crate) const SIZE: u64 = BLOCK as u64 * BLOCKS;

pub(crate) const OPT_EXPORT_NAME: u32 = 1;
pub(crate) const OPT_ABORT: u32 = 2;
pub(crate) const OPT_LIST: u32 = 3;
pub(crate) const OPT_INFO: u32 = 6;
pub(crate) const OPT_GO: u32 = 7;
pub(crate) const OPT_STRUCTURED_REPLY: u32 = 8;
pub(crate) const OPT_SET_META_CONTEXT: u32 = 10;
pub(crate) const OPT_EXTENDED_HEADERS: u32 = 11;

pub(crate) const ACK: u32 = 1;
pub(crate) const ERR_UNSUP: u32 = 0x8000_0001;
pub(crate) const ERR_INVALID: u32 = 0x8000_0003;
pub(crate) const ERR_UNKNOWN: u32 = 0x8000_0006;
pub(crate) const ERR_TOO_BIG: u32 = 0x8000_0009;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISC: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const ZEROES: u16 = 6;
pub(crate) const STATUS: u16 = 7;

pub(crate) const FUA: u16 = 1;
pub(crate) const REQ_ONE: u16 = 8;
pub(crate) const PAYLOAD_LEN: u16 = 32;

pub(crate) const EPERM: u32 = 1;
pub(crate) const EIO: u32 = 5;
pub(crate) const EINVAL: u32 = 22;
pub(crate) const ENOSPC: u32 = 28;

/// A server of one device in memory, at a socket of its own.
pub(crate) struct Served {
    folder: TempDir,
    pub(crate) device: Arc<MemoryDevice>,
    pub(crate) server: Server,
}

impl Served {
    pub(crate) fn start() -> Served {
        let device = Arc::new(MemoryDevice::new(BLOCK, BLOCKS));
        let export = Export::new("disk", Arc::clone(&device) as Arc<dyn BlockDevice>, false).unwrap();
        Served::exports(device, vec![export])
    }

    pub(crate) fn exports(device: Arc<MemoryDevice>, exports: Vec<Export>) -> Served {
        let folder = tempfile::tempdir().unwrap();
        let listener = Listener::bind(&Address::Unix(folder.path().join("s"))).unwrap();
        let server = Server::start(exports, vec![listener]).unwrap();
        Served { folder, device, server }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// Returns a connection after the greeting, to which no option was sent.
    pub(crate) fn greeted(&self) -> Client {
        Client::greeted(UnixStream::connect(self.socket()).unwrap(), 3)
    }

    /// Returns a client of the first export.
    pub(crate) fn client(&self, form: Form) -> Client {
        let mut client = self.greeted();
        client.choose(form);
        client
    }
}

/// The form of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Simple,
    Structured,
    Extended,
}

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    pub(crate) error: u32,
    /// The bytes of a read, or what follows the header of the chunk of a block status.
    pub(crate) data: Vec<u8>,
}

/// A connection.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) form: Form,
}

impl Client {
    /// Reads the greeting, and answers with the handshake flags.
    pub(crate) fn greeted(mut stream: UnixStream, flags: u32) -> Client {
        // A reply that never comes fails the test.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        stream.write_all(&flags.to_be_bytes()).unwrap();
        Client { stream, form: Form::Simple }
    }

    /// Negotiates a form of replies and block status, and goes to the first export.
    pub(crate) fn choose(&mut self, form: Form) {
        let option = match form {
            Form::Simple => None,
            Form::Structured => Some(OPT_STRUCTURED_REPLY),
            Form::Extended => Some(OPT_EXTENDED_HEADERS),
        };
        if let Some(option) = option {
            assert_eq!(self.ask(option, &[]), [(ACK, vec![])]);
            let context = self.ask(OPT_SET_META_CONTEXT, b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation");
            assert_eq!(context, [(4, b"\0\0\0\x01base:allocation".to_vec()), (ACK, vec![])]);
        }
        let replies = self.ask(OPT_GO, b"\0\0\0\0\0\0");
        assert_eq!(replies[0].1[..10], [&[0, 0][..], &SIZE.to_be_bytes()].concat());
        assert_eq!(replies.last(), Some(&(ACK, vec![])));
        self.form = form;
    }

    pub(crate) fn send_option(&mut self, code: u32, data: &[u8]) {
        let head = [&b"IHAVEOPT"[..], &code.to_be_bytes(), &(data.len() as u32).to_be_bytes()].concat();
        self.stream.write_all(&[&head, data].concat()).unwrap();
    }

    /// Sends an option, and returns the kind and the data of each reply up to the last one.
    pub(crate) fn ask(&mut self, code: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(code, data);
        let mut replies = Vec::new();
        loop {
            let reply = self.option_reply(code);
            let is_last = reply.0 == ACK || reply.0 >= 1 << 31;
            replies.push(reply);
            if is_last {
                return replies;
            }
        }
    }

    pub(crate) fn option_reply(&mut self, code: u32) -> (u32, Vec<u8>) {
        assert_eq!(self.u64(), 0x0003_e889_0455_65a9);
        assert_eq!(self.u32(), code);
        let (kind, len) = (self.u32(), self.u32());
        (kind, self.bytes(len as usize))
    }

    /// Returns the bytes of a command.
    pub(crate) fn command(
        &self,
        code: u16,
        flags: u16,
        cookie: u64,
        offset: u64,
        len: u64,
        payload: &[u8],
    ) -> Vec<u8> {
        let is_extended = self.form == Form::Extended;
        let magic: u32 = if is_extended { 0x21e4_1c71 } else { 0x2560_9513 };
        let flags = if is_extended && !payload.is_empty() { flags | PAYLOAD_LEN } else { flags };
        let mut bytes = magic.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(&cookie.to_be_bytes());
        bytes.extend_from_slice(&offset.to_be_bytes());
        match self.form {
            Form::Extended => bytes.extend_from_slice(&len.to_be_bytes()),
            _ => bytes.extend_from_slice(&(len as u32).to_be_bytes()),
        }
        bytes.extend_from_slice(payload);
        bytes
    }

    pub(crate) fn send(&mut self, code: u16, flags: u16, cookie: u64, offset: u64, len: u64) {
        let bytes = self.command(code, flags, cookie, offset, len, &[]);
        self.stream.write_all(&bytes).unwrap();
    }

    pub(crate) fn send_write(&mut self, flags: u16, cookie: u64, offset: u64, payload: &[u8]) {
        let bytes = self.command(WRITE, flags, cookie, offset, payload.len() as u64, payload);
        self.stream.write_all(&bytes).unwrap();
    }

    /// Reads a reply; one to a read of `len` bytes, or 0 for other commands.
    pub(crate) fn reply(&mut self, len: usize) -> Reply {
        let magic = self.u32();
        if magic == 0x6744_6698 {
            assert_ne!(self.form, Form::Extended);
            let (error, cookie) = (self.u32(), self.u64());
            let data = if error == 0 { self.bytes(len) } else { Vec::new() };
            return Reply { cookie, error, data };
        }
        assert_eq!(magic, if self.form == Form::Extended { 0x6e8a_278c } else { 0x668e_33ef });
        let head = self.u32();
        assert_eq!(head >> 16, 1, "one chunk");
        let cookie = self.u64();
        let chunk_len = match self.form {
            Form::Extended => {
                self.u64();
                self.u64() as usize
            }
            _ => self.u32() as usize,
        };
        let data = self.bytes(chunk_len);
        match head & 0xffff {
            0 => assert_eq!(chunk_len, 0),
            1 => return Reply { cookie, error: 0, data: data[8..].to_vec() },
            5 | 6 => return Reply { cookie, error: 0, data },
            0x8001 => {
                let message = u16::from_be_bytes(data[4..6].try_into().unwrap());
                assert_eq!(data.len(), 6 + usize::from(message));
                let error = u32::from_be_bytes(data[..4].try_into().unwrap());
                assert_ne!(error, 0);
                return Reply { cookie, error, data: Vec::new() };
            }
            kind => panic!("chunk of kind {kind}"),
        }
        Reply { cookie, error: 0, data }
    }

    /// Writes, and waits for the reply.
    #[track_caller]
    pub(crate) fn write(&mut self, offset: u64, payload: &[u8]) {
        self.send_write(0, 1, offset, payload);
        assert_eq!(self.reply(0), Reply { cookie: 1, error: 0, data: vec![] });
    }

    /// Returns the bytes of a range.
    #[track_caller]
    pub(crate) fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        self.send(READ, 0, 2, offset, len as u64);
        let reply = self.reply(len);
        assert_eq!((reply.cookie, reply.error), (2, 0));
        reply.data
    }

    /// Returns the error of a command without payload, or 0.
    pub(crate) fn error(&mut self, code: u16, flags: u16, offset: u64, len: u64) -> u32 {
        self.send(code, flags, 3, offset, len);
        let reply = self.reply(0);
        assert_eq!(reply.cookie, 3);
        reply.error
    }

    /// Returns true if the server has ended the connection without another word.
    pub(crate) fn is_ended(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(received) => received == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes(4).try_into().unwrap())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes(8).try_into().unwrap())
    }
}
