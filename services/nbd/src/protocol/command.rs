//! Commands of the transmission phase.

use crate::protocol::reply::Errno;
use crate::protocol::wire::{
    CMD_BLOCK_STATUS, CMD_CACHE, CMD_DISC, CMD_FLAG_DF, CMD_FLAG_FAST_ZERO, CMD_FLAG_FUA, CMD_FLAG_NO_HOLE,
    CMD_FLAG_PAYLOAD_LEN, CMD_FLAG_REQ_ONE, CMD_FLUSH, CMD_READ, CMD_RESIZE, CMD_TRIM, CMD_WRITE,
    CMD_WRITE_ZEROES, EXTENDED_REQUEST_MAGIC, Fields, PAYLOAD_MAX, REQUEST_MAGIC,
};

/// The header of a command, as the client sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandHeader {
    flags: u16,
    code: u16,
    /// The client's name for the command, which each reply repeats.
    pub(crate) cookie: u64,
    /// Offset in the export, in bytes.
    pub(crate) offset: u64,
    /// Length of the effect or of the payload, in bytes.
    pub(crate) len: u64,
}

/// The work of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Write,
    Flush,
    Trim,
    Cache,
    Zero {
        /// True if it must fail where writing zeros takes as long as writing data.
        is_fast: bool,
    },
    Status {
        /// True if one extent is wanted, no more.
        is_one: bool,
    },
    /// Grow the export to the offset.
    Resize,
    Disconnect,
    /// It is refused.
    Refuse(Errno),
}

/// Bounds of an export and of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of the export.
    pub(crate) capacity: u64,
    pub(crate) is_read_only: bool,
    /// True if the client chose the context that BLOCK_STATUS reports.
    pub(crate) has_context: bool,
}

impl CommandHeader {
    /// Returns the length of a header in bytes.
    pub(crate) fn len(is_extended: bool) -> usize {
        if is_extended { 32 } else { 28 }
    }

    /// Decodes the header at the front of `bytes`, which are as many as a header has. `None` if it is none: nothing after it
    /// can be understood.
    pub(crate) fn decode(bytes: &[u8], is_extended: bool) -> Option<CommandHeader> {
        let mut fields = Fields(bytes);
        let magic = if is_extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
        if fields.u32()? != magic {
            return None;
        }
        let (flags, code) = (fields.u16()?, fields.u16()?);
        let (cookie, offset) = (fields.u64()?, fields.u64()?);
        let len = if is_extended { fields.u64()? } else { u64::from(fields.u32()?) };
        Some(CommandHeader { flags, code, cookie, offset, len })
    }

    /// Returns the number of bytes that follow the header.
    pub(crate) fn payload(&self, is_extended: bool) -> u64 {
        let has_payload =
            if is_extended { self.flags & CMD_FLAG_PAYLOAD_LEN != 0 } else { self.code == CMD_WRITE };
        if has_payload { self.len } else { 0 }
    }

    /// Returns true if the server can't know where the next command begins: a write with extended headers that does not say
    /// that a payload follows. Its content must not be taken for commands.
    pub(crate) fn hides_payload(&self, is_extended: bool) -> bool {
        is_extended && self.code == CMD_WRITE && self.flags & CMD_FLAG_PAYLOAD_LEN == 0
    }

    /// Returns true if the changes must be durable before the reply.
    pub(crate) fn is_fua(&self) -> bool {
        self.flags & CMD_FLAG_FUA != 0
    }

    /// Returns what the command does.
    pub(crate) fn action(&self, is_extended: bool, limits: Limits) -> Action {
        match self.checked(is_extended, limits) {
            Ok(action) => action,
            Err(errno) => Action::Refuse(errno),
        }
    }

    fn checked(&self, is_extended: bool, limits: Limits) -> Result<Action, Errno> {
        let payload = if is_extended { CMD_FLAG_PAYLOAD_LEN } else { 0 };
        let (action, flags) = match self.code {
            CMD_READ => (Action::Read, CMD_FLAG_DF),
            CMD_WRITE => (Action::Write, payload),
            CMD_DISC => return Ok(Action::Disconnect),
            CMD_FLUSH => (Action::Flush, 0),
            CMD_TRIM => (Action::Trim, 0),
            CMD_RESIZE => (Action::Resize, 0),
            CMD_CACHE => (Action::Cache, 0),
            CMD_WRITE_ZEROES => {
                let is_fast = self.flags & CMD_FLAG_FAST_ZERO != 0;
                (Action::Zero { is_fast }, CMD_FLAG_NO_HOLE | CMD_FLAG_FAST_ZERO)
            }
            CMD_BLOCK_STATUS => {
                (Action::Status { is_one: self.flags & CMD_FLAG_REQ_ONE != 0 }, CMD_FLAG_REQ_ONE)
            }
            _ => return Err(Errno::Invalid),
        };
        if self.flags & !(flags | CMD_FLAG_FUA) != 0 {
            return Err(Errno::Invalid);
        }
        if action == Action::Flush {
            return if self.offset == 0 && self.len == 0 { Ok(action) } else { Err(Errno::Invalid) };
        }
        let is_change = matches!(action, Action::Write | Action::Trim | Action::Zero { .. } | Action::Resize);
        let is_transfer = matches!(action, Action::Read | Action::Write);
        if is_change && limits.is_read_only {
            return Err(Errno::Permission);
        }
        if action == Action::Resize {
            return if self.len == 0 { Ok(action) } else { Err(Errno::Invalid) };
        }
        if self.len == 0
            || is_transfer && self.len > u64::from(PAYLOAD_MAX)
            || action == Action::Write && self.payload(is_extended) == 0
            || matches!(action, Action::Status { .. }) && !limits.has_context
        {
            return Err(Errno::Invalid);
        }
        match self.offset.checked_add(self.len) {
            Some(end) if end <= limits.capacity => Ok(action),
            _ if matches!(action, Action::Write | Action::Zero { .. }) => Err(Errno::NoSpace),
            _ => Err(Errno::Invalid),
        }
    }
}

#[cfg(test)]
pub(crate) mod test {
    use super::*;

    pub(crate) const LIMITS: Limits = Limits { capacity: 100 << 20, is_read_only: false, has_context: true };

    fn header(code: u16, flags: u16, offset: u64, len: u64) -> CommandHeader {
        CommandHeader { flags, code, cookie: 7, offset, len }
    }

    #[test]
    fn headers_are_decoded() {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(b"\0\x01\0\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\x10\0\0\0\x02\0");
        assert_eq!(bytes.len(), CommandHeader::len(false));
        let decoded = CommandHeader::decode(&bytes, false).unwrap();
        assert_eq!(decoded, header(CMD_WRITE, CMD_FLAG_FUA, 4096, 512));
        assert!(decoded.is_fua() && decoded.payload(false) == 512 && decoded.payload(true) == 0);
        assert_eq!(CommandHeader::decode(&bytes, true), None);
        bytes[..4].copy_from_slice(&EXTENDED_REQUEST_MAGIC.to_be_bytes());
        assert_eq!(CommandHeader::decode(&bytes, true), None, "too short");
        bytes.splice(24..24, [0; 4]);
        assert_eq!(CommandHeader::decode(&bytes, true), Some(decoded));
    }

    #[test]
    fn bad_commands_are_refused() {
        use Errno::{Invalid, NoSpace, Permission};
        let end = LIMITS.capacity;
        let big = u64::from(PAYLOAD_MAX) + 1;
        for (code, flags, offset, len, refused) in [
            (CMD_READ, 0, 0, 512, None),
            (CMD_READ, CMD_FLAG_FUA | CMD_FLAG_DF, end - 1, 1, None),
            (CMD_READ, 0, 0, 0, Some(Invalid)),
            (CMD_READ, 0, end, 1, Some(Invalid)),
            (CMD_READ, 0, u64::MAX, 1, Some(Invalid)),
            (CMD_READ, 0, 0, big, Some(Invalid)),
            (CMD_READ, CMD_FLAG_NO_HOLE, 0, 1, Some(Invalid)),
            (CMD_WRITE, 0, 0, big - 1, None),
            (CMD_WRITE, 0, 0, big, Some(Invalid)),
            (CMD_WRITE, 0, end, 1, Some(NoSpace)),
            (CMD_WRITE, CMD_FLAG_PAYLOAD_LEN, 0, 1, Some(Invalid)),
            (CMD_FLUSH, 0, 0, 0, None),
            (CMD_FLUSH, 0, 0, 1, Some(Invalid)),
            (CMD_TRIM, 0, 0, end, None),
            (CMD_TRIM, 0, 1, end, Some(Invalid)),
            (CMD_CACHE, 0, 0, big, None),
            (CMD_WRITE_ZEROES, CMD_FLAG_FAST_ZERO | CMD_FLAG_NO_HOLE, 0, end, None),
            (CMD_WRITE_ZEROES, 0, 1, end, Some(NoSpace)),
            (CMD_BLOCK_STATUS, CMD_FLAG_REQ_ONE, 0, end, None),
            (CMD_RESIZE, 0, 2 * end, 0, None),
            (CMD_RESIZE, 0, 2 * end, 1, Some(Invalid)),
            (9, 0, 0, 1, Some(Invalid)),
            (u16::MAX, 0, 0, 1, Some(Invalid)),
        ] {
            let header = header(code, flags, offset, len);
            let action = header.action(false, LIMITS);
            let found = if let Action::Refuse(errno) = action { Some(errno) } else { None };
            assert_eq!(found, refused, "{header:?}");
            let read_only = Limits { is_read_only: true, ..LIMITS };
            if [CMD_WRITE, CMD_TRIM, CMD_WRITE_ZEROES, CMD_RESIZE].contains(&code) && flags == 0 {
                assert_eq!(header.action(false, read_only), Action::Refuse(Permission));
            }
        }
        let without = Limits { has_context: false, ..LIMITS };
        assert_eq!(header(CMD_BLOCK_STATUS, 0, 0, 1).action(false, without), Action::Refuse(Invalid));
        assert_eq!(header(CMD_WRITE, 0, 0, 1).action(true, LIMITS), Action::Refuse(Invalid), "no payload");
        assert_eq!(header(CMD_WRITE, CMD_FLAG_PAYLOAD_LEN, 0, 1).action(true, LIMITS), Action::Write);
    }
}
