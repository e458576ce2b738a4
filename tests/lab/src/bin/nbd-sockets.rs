//! Gives a device of the kernel's NBD client new connections, in the place of those that have died, as the client of a server
//! that was started again does. nbd-client 3.24 can't: a device that it has made fails its requests when the last connection
//! dies, unless it has a time to wait, which this program sets, too.
//!
//! Linux, include/uapi/linux/nbd-netlink.h and genetlink.h: the family `nbd` of generic netlink.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// Type of a message with the result of a request.
const ERROR: u16 = 2;
/// Bytes of the headers of netlink and generic netlink.
const HEADERS_LEN: usize = 20;
/// The family that knows the numbers of the others.
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const RECONFIGURE: u8 = 3;
const INDEX: u16 = 1;
const SOCKETS: u16 = 7;
const DEAD_CONN_TIMEOUT: u16 = 8;
const SOCKET_ITEM: u16 = 1;
const SOCKET_FD: u16 = 1;
/// Says that the value of an attribute is attributes.
const NESTED: u16 = 1 << 15;

/// Give a device of the kernel new connections in the place of dead ones.
#[derive(Parser)]
#[command(name = "nbd-sockets")]
struct Arguments {
    /// Number of the device, as in /dev/nbdNUMBER
    number: u32,
    /// The server's socket; without it, only the time to wait is set
    #[arg(long, requires = "name")]
    unix: Option<PathBuf>,
    /// The export
    #[arg(long)]
    name: Option<String>,
    /// Number of connections
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Seconds that requests wait for a connection when all are dead
    #[arg(long)]
    wait: Option<u64>,
}

fn main() -> Result<()> {
    let Arguments { number, unix, name, connections, wait } = Arguments::parse();
    let mut attributes = attribute(INDEX, &number.to_ne_bytes());
    if let Some(seconds) = wait {
        attributes.extend(attribute(DEAD_CONN_TIMEOUT, &seconds.to_ne_bytes()));
    }
    let mut streams = Vec::new();
    if let (Some(path), Some(name)) = (unix, name) {
        for _ in 0..connections {
            let stream = UnixStream::connect(&path).with_context(|| path.display().to_string())?;
            choose(&stream, &name).context("the handshake")?;
            streams.push(stream);
        }
        let item = |stream: &UnixStream| {
            let fd = attribute(SOCKET_FD, &stream.as_fd().as_raw_fd().to_ne_bytes());
            attribute(SOCKET_ITEM | NESTED, &fd)
        };
        let items: Vec<u8> = streams.iter().flat_map(item).collect();
        attributes.extend(attribute(SOCKETS | NESTED, &items));
    }
    let mut socket = Netlink::open()?;
    let family = socket.family("nbd")?;
    // The kernel has sockets of its own from here on.
    socket.ask(family, RECONFIGURE, &attributes).with_context(|| format!("/dev/nbd{number}"))?;
    Ok(())
}

/// Chooses an export by the option EXPORT_NAME: fixed newstyle, no zeros after the answer.
fn choose(mut stream: &UnixStream, name: &str) -> Result<()> {
    stream.read_exact(&mut [0; 18])?;
    let len = u32::try_from(name.len())?;
    let option = [&3_u32.to_be_bytes()[..], b"IHAVEOPT", &1_u32.to_be_bytes(), &len.to_be_bytes()].concat();
    stream.write_all(&[&option, name.as_bytes()].concat())?;
    Ok(stream.read_exact(&mut [0; 10])?)
}

/// Returns an attribute, padded as those that follow it need.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A socket of generic netlink.
struct Netlink(File);

impl Netlink {
    fn open() -> Result<Netlink> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::GENERIC));
        Ok(Netlink(File::from(socket.context("a netlink socket")?)))
    }

    /// Returns the number of a family.
    fn family(&mut self, name: &str) -> Result<u16> {
        let name = attribute(FAMILY_NAME, &[name.as_bytes(), &[0]].concat());
        let answer = self.ask(CONTROLLER, GET_FAMILY, &name).context("the family nbd: load the module")?;
        let mut rest = &answer[..];
        while let Some(([len_low, len_high, kind_low, kind_high], _)) = rest.split_first_chunk() {
            let len = usize::from(u16::from_ne_bytes([*len_low, *len_high]));
            if u16::from_ne_bytes([*kind_low, *kind_high]) == FAMILY_ID && rest.len() >= 6 {
                return Ok(u16::from_ne_bytes([rest[4], rest[5]]));
            }
            ensure!(len >= 4, "an attribute of {len} bytes");
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        anyhow::bail!("the kernel tells no number of the family");
    }

    /// Sends a request. Returns the attributes of the answer when the kernel has acknowledged it.
    fn ask(&mut self, family: u16, command: u8, attributes: &[u8]) -> Result<Vec<u8>> {
        let len = u32::try_from(HEADERS_LEN + attributes.len())?;
        let mut message = len.to_ne_bytes().to_vec();
        message.extend(family.to_ne_bytes());
        message.extend((REQUEST | ACKNOWLEDGE).to_ne_bytes());
        // Number of the request, port, command, version.
        message.extend([1, 0, 0, 0, 0, 0, 0, 0, command, 1, 0, 0]);
        message.extend(attributes);
        self.0.write_all(&message)?;
        let mut answer = Vec::new();
        loop {
            let mut received = vec![0; 64 << 10];
            let len = self.0.read(&mut received)?;
            ensure!(len >= HEADERS_LEN, "an answer of {len} bytes");
            if u16::from_ne_bytes([received[4], received[5]]) != ERROR {
                answer = received[HEADERS_LEN..len].to_vec();
                continue;
            }
            let result = i32::from_ne_bytes([received[16], received[17], received[18], received[19]]);
            return if result == 0 { Ok(answer) } else { Err(Errno::from_raw_os_error(-result).into()) };
        }
    }
}
