//! The proof that a client may read the pool: it opens the file for reading, and passes the descriptor on.
//!
//! The kernel decides with the file's mode, its access control list and the client's capabilities, as for any other way to
//! read the file. A process that got the descriptor from another one may read the file as well.

use crate::message::HELLO;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{OFlags, Stat, fcntl_getfl, fstat};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;

/// Identity of a file while it is open: device and inode.
pub(crate) type FileId = (u64, u64);

pub(crate) fn file_id(stat: &Stat) -> FileId {
    (stat.st_dev, stat.st_ino)
}

/// Sends the hello with the proof.
pub(crate) fn send(stream: &UnixStream, file: impl AsFd) -> Result<(), Errno> {
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)), "room for one descriptor");
    let sent = retry_on_intr(|| sendmsg(stream, &[IoSlice::new(&HELLO)], &mut control, SendFlags::NOSIGNAL));
    match sent? {
        sent if sent == HELLO.len() => Ok(()),
        _ => Err(Errno::PIPE),
    }
}

/// Receives the hello of a client. Returns it, and whether it came with the right to read the file `pool`.
pub(crate) fn receive(stream: &UnixStream, pool: FileId) -> Result<([u8; 8], bool), Errno> {
    let mut hello = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [IoSliceMut::new(&mut hello)];
    let received = retry_on_intr(|| recvmsg(stream, into, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let is_whole = received.bytes == HELLO.len() && !received.flags.contains(ReturnFlags::CTRUNC);
    // All descriptors are taken, so that they are closed here.
    // ORDER: none: this drain empties a buffer, and is no wait for durability.
    let files: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .collect();
    Ok((hello, is_whole && matches!(&files[..], [file] if is_readable(file, pool))))
}

/// Returns true if `file` is the file `pool`, open for reading.
fn is_readable(file: &OwnedFd, pool: FileId) -> bool {
    let is_open = fcntl_getfl(file)
        .is_ok_and(|flags| !flags.contains(OFlags::PATH) && flags & OFlags::ACCMODE != OFlags::WRONLY);
    is_open && fstat(file).is_ok_and(|stat| file_id(&stat) == pool)
}
