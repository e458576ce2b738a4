//! `lode volume serve`.

use crate::failure::Failure;
use crate::global_options::GlobalOptions;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::volume::failed;
use clap::{Args, ValueEnum};
use listenfd::ListenFd;
use lode_nbd::{Address, Export, Listener, NbdError, Server};
use lode_pool::Access;
use lode_volume::{BlockDevice, Volume, VolumeError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Longest time until a signal is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const WHAT: &str = "serving volumes";

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("address", "where the server listens; an object for each address, when clients can connect"),
    ("exports", "names of the exports"),
];

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// The volumes, each with the name of its export [default: name of the file]
    #[arg(required = true, value_name = "[NAME=]PATH")]
    volumes: Vec<String>,
    /// Listen at a unix socket or at HOST:PORT of TCP
    #[arg(long, value_name = "unix:SOCKET|HOST:PORT")]
    nbd: Option<Address>,
    /// Open the volumes for reading; clients can't write
    #[arg(long)]
    read_only: bool,
    /// Serve files without a header that tells their format
    #[arg(long)]
    format: Option<Headerless>,
}

/// A format that is never recognised.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Headerless {
    /// The bytes of the file from its first one on
    Raw,
}

pub(crate) fn run(serve: &Serve, options: &GlobalOptions) -> Result<Output, Failure> {
    let interrupt = Interrupt::listen()?;
    raise_descriptor_limit();
    let mut volumes = Vec::new();
    let mut exports = Vec::new();
    for volume in &serve.volumes {
        let (name, path) = named(volume);
        let volume = Arc::new(open(serve, &path, options)?);
        let export = Export::new(name, Arc::clone(&volume) as Arc<dyn BlockDevice>, serve.read_only);
        exports.push(export.map_err(|error| Failure::new(WHAT, error))?);
        volumes.push(volume);
    }
    let names: Vec<_> = exports.iter().map(|export| export.name().to_owned()).collect();
    let refused = |error: NbdError| Failure::new(WHAT, error);
    let listeners = listeners(serve.nbd.as_ref())?;
    let addresses: Result<Vec<_>, _> = listeners.iter().map(Listener::address).collect();
    let addresses = addresses.map_err(refused)?;
    let server = Server::start(exports, listeners).map_err(refused)?;
    for address in addresses {
        announce(&address, &names, options.json)?;
    }
    while !interrupt.is_set() {
        thread::sleep(POLL_INTERVAL);
    }
    server.stop().map_err(|error| Failure::new(WHAT, error))?;
    for volume in volumes.into_iter().filter_map(Arc::into_inner) {
        volume.close().map_err(failed(WHAT))?;
    }
    Ok(Output::empty())
}

/// Returns the name and the path of an export.
fn named(volume: &str) -> (String, PathBuf) {
    match volume.split_once('=') {
        Some((name, path)) => (name.to_owned(), path.into()),
        None => {
            let path = PathBuf::from(volume);
            (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path)
        }
    }
}

fn open(serve: &Serve, path: &Path, options: &GlobalOptions) -> Result<Volume, Failure> {
    let access = if serve.read_only { Access::ReadOnly } else { Access::ReadWrite };
    let durability = options.durability.forced();
    let volume = match serve.format {
        Some(Headerless::Raw) => Volume::open_headerless(path, access, durability),
        None => Volume::open(path, access, durability),
    };
    volume.map_err(|error| match error.cause() {
        VolumeError::Absent => {
            let hint = "; make one with `lode volume create`, or serve the file as it is with --format raw";
            Failure::new(WHAT, format_args!("{error}{hint}"))
        }
        _ => failed(WHAT)(error),
    })
}

/// Returns the listeners: those of systemd, or one at `address`.
fn listeners(address: Option<&Address>) -> Result<Vec<Listener>, Failure> {
    let mut inherited = ListenFd::from_env();
    let mut listeners: Vec<Listener> = Vec::new();
    for index in 0..inherited.len() {
        let unix = inherited.take_unix_listener(index).ok().flatten();
        match unix {
            Some(listener) => listeners.push(listener.into()),
            None => {
                let tcp = inherited.take_tcp_listener(index);
                let tcp = tcp.map_err(|error| Failure::new(WHAT, format_args!("LISTEN_FDS: {error}")))?;
                listeners.extend(tcp.map(Listener::from));
            }
        }
    }
    match (address, listeners.is_empty()) {
        (Some(address), true) => {
            let listener = Listener::bind(address).map_err(|error| Failure::new(WHAT, error))?;
            Ok(vec![listener])
        }
        (None, false) => Ok(listeners),
        (Some(_), false) => Err(Failure::usage_error(
            "--nbd: systemd has passed sockets (LISTEN_FDS); leave --nbd out, or start without them",
        )),
        (None, true) => Err(Failure::usage_error("--nbd unix:SOCKET or --nbd HOST:PORT is required")),
    }
}

/// Prints where clients can connect.
fn announce(address: &Address, names: &[String], json: bool) -> Result<(), Failure> {
    let line = if json {
        json!({ "address": address.to_string(), "exports": names }).to_string()
    } else {
        format!("{address}: {}", names.join(", "))
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Failure::stdout)
}

/// Allows as many descriptors as the hard limit does: each client needs one.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // With the old limit fewer clients can connect at once.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
