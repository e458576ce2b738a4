//! Replies to commands.

use crate::protocol::wire::{
    BASE_ALLOCATION_ID, EXTENDED_REPLY_MAGIC, REPLY_BLOCK_STATUS, REPLY_BLOCK_STATUS_EXT, REPLY_ERROR,
    REPLY_FLAG_DONE, REPLY_NONE, REPLY_OFFSET_DATA, SIMPLE_REPLY_MAGIC, STATE_HOLE_ZERO,
    STRUCTURED_REPLY_MAGIC,
};

/// Longest message of an error, in bytes.
const MESSAGE_MAX: usize = 1024;

/// An error number of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Errno {
    /// The export is read-only.
    Permission = 1,
    /// The device failed.
    Io = 5,
    /// The command is wrong.
    Invalid = 22,
    /// After the end of the export.
    NoSpace = 28,
    /// It can't be done fast, or not by this export.
    NotSupported = 95,
}

/// The form of the replies that a client has negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplyForm {
    /// 16 bytes, and data after them.
    #[default]
    Simple,
    /// Chunks with a type and a length.
    Structured,
    /// The same with lengths of 64 bits, also in commands.
    Extended,
}

/// Names the command of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    pub(crate) form: ReplyForm,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
}

/// An extent of a reply to BLOCK_STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatusExtent {
    /// Length in bytes.
    pub(crate) len: u64,
    pub(crate) is_zero: bool,
}

impl ReplyTo {
    /// Appends the success of a command without data.
    pub(crate) fn done(&self, out: &mut Vec<u8>) {
        match self.form {
            ReplyForm::Extended => self.chunk(out, REPLY_NONE, 0),
            ReplyForm::Simple | ReplyForm::Structured => self.simple(out, 0),
        }
    }

    /// Appends what stands before the `len` bytes of data of a read.
    pub(crate) fn data(&self, out: &mut Vec<u8>, len: u64) {
        if self.form == ReplyForm::Simple {
            return self.simple(out, 0);
        }
        self.chunk(out, REPLY_OFFSET_DATA, 8 + len);
        out.extend_from_slice(&self.offset.to_be_bytes());
    }

    /// Appends a failure. Simple replies have no place for the message.
    pub(crate) fn error(&self, out: &mut Vec<u8>, errno: Errno, message: &str) {
        if self.form == ReplyForm::Simple {
            return self.simple(out, errno as u32);
        }
        let message = &message.as_bytes()[..message.len().min(MESSAGE_MAX)];
        self.chunk(out, REPLY_ERROR, 6 + message.len() as u64);
        out.extend_from_slice(&(errno as u32).to_be_bytes());
        out.extend_from_slice(&(message.len() as u16).to_be_bytes());
        out.extend_from_slice(message);
    }

    /// Appends extents.
    pub(crate) fn status(&self, out: &mut Vec<u8>, extents: &[StatusExtent]) {
        let count = extents.len() as u64;
        if self.form == ReplyForm::Extended {
            self.chunk(out, REPLY_BLOCK_STATUS_EXT, 8 + 16 * count);
            out.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
            out.extend_from_slice(&(extents.len() as u32).to_be_bytes());
        } else {
            self.chunk(out, REPLY_BLOCK_STATUS, 4 + 8 * count);
            out.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
        }
        for extent in extents {
            let flags = if extent.is_zero { STATE_HOLE_ZERO } else { 0 };
            if self.form == ReplyForm::Extended {
                out.extend_from_slice(&extent.len.to_be_bytes());
                out.extend_from_slice(&u64::from(flags).to_be_bytes());
            } else {
                // It is a part of the command's length, which has 32 bits.
                out.extend_from_slice(&(extent.len as u32).to_be_bytes());
                out.extend_from_slice(&flags.to_be_bytes());
            }
        }
    }

    fn simple(&self, out: &mut Vec<u8>, errno: u32) {
        out.extend_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        out.extend_from_slice(&errno.to_be_bytes());
        out.extend_from_slice(&self.cookie.to_be_bytes());
    }

    /// Appends the header of the only chunk of a reply.
    fn chunk(&self, out: &mut Vec<u8>, kind: u16, len: u64) {
        let is_extended = self.form == ReplyForm::Extended;
        let magic = if is_extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC };
        out.extend_from_slice(&magic.to_be_bytes());
        out.extend_from_slice(&REPLY_FLAG_DONE.to_be_bytes());
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&self.cookie.to_be_bytes());
        if is_extended {
            out.extend_from_slice(&self.offset.to_be_bytes());
            out.extend_from_slice(&len.to_be_bytes());
        } else {
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}
