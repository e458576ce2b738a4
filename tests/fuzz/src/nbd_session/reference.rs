//! The protocol once more, as a walk over what a client sent and what it received.

use super::{BLOCK, BLOCKS, NAME};

const SIZE: usize = BLOCK * BLOCKS;
const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const SET_META_CONTEXT: u32 = 10;
const EXTENDED_HEADERS: u32 = 11;
const ACK: u32 = 1;
const META_CONTEXT: u32 = 4;
const TOO_BIG: u32 = 0x8000_0009;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const ZEROES: u16 = 6;
const STATUS: u16 = 7;
const RESIZE: u16 = 8;
const FUA: u16 = 1;
const FAST: u16 = 16;
const REQ_ONE: u16 = 8;
const PAYLOAD_LEN: u16 = 32;

const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const ENOTSUP: u32 = 95;
const PAYLOAD_MAX: u64 = 32 << 20;
const OPTIONS_MAX: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Simple,
    Structured,
    Extended,
}

/// Bytes of which the first ones are taken. `None`: they are not there.
struct Bytes<'d>(&'d [u8]);

impl<'d> Bytes<'d> {
    fn take(&mut self, len: usize) -> Option<&'d [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn number(&mut self, len: usize) -> Option<u64> {
        Some(self.take(len)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn u16(&mut self) -> Option<u16> {
        self.number(2).map(|number| number as u16)
    }

    fn u32(&mut self) -> Option<u32> {
        self.number(4).map(|number| number as u32)
    }

    fn u64(&mut self) -> Option<u64> {
        self.number(8)
    }
}

/// A field of a reply, which must be there.
fn reply<T>(field: Option<T>) -> T {
    assert!(field.is_some(), "a reply is cut short");
    field.unwrap_or_else(|| unreachable!())
}

struct Command {
    flags: u16,
    code: u16,
    cookie: u64,
    offset: u64,
    len: u64,
}

struct Walk<'d> {
    sent: Bytes<'d>,
    received: Bytes<'d>,
    disk: Vec<u8>,
    form: Form,
    has_context: bool,
}

/// Returns the content of the disk after the commands in `sent`. Panics if `received` are not the bytes of the right replies.
pub(super) fn check(sent: &[u8], received: &[u8]) -> Vec<u8> {
    let mut walk = Walk {
        sent: Bytes(sent),
        received: Bytes(received),
        disk: vec![0; SIZE],
        form: Form::Simple,
        has_context: false,
    };
    assert_eq!(walk.received.take(18), Some(&b"NBDMAGICIHAVEOPT\0\x03"[..]));
    if walk.handshake().is_some() {
        while walk.command().is_some() {}
    }
    assert!(walk.received.0.is_empty(), "bytes that answer nothing: {:?}", walk.received.0);
    walk.disk
}

impl Walk<'_> {
    /// Walks to the end of the handshake. `None` if the connection ends.
    fn handshake(&mut self) -> Option<()> {
        let flags = self.sent.u32().filter(|flags| *flags < 4)?;
        for _ in 0..OPTIONS_MAX {
            if self.sent.take(8)? != b"IHAVEOPT" {
                return None;
            }
            let (code, len) = (self.sent.u32()?, self.sent.u32()? as usize);
            if code == SET_META_CONTEXT {
                self.has_context = false;
            }
            if len > 64 << 10 {
                if code == EXPORT_NAME {
                    return None;
                }
                assert_eq!(self.option_reply(code), TOO_BIG);
                self.sent.take(len)?;
                continue;
            }
            let data = self.sent.take(len)?;
            if code == EXPORT_NAME {
                if !data.is_empty() && data != NAME.as_bytes() {
                    return None;
                }
                assert_eq!(self.received.u64(), Some(SIZE as u64));
                assert_eq!(reply(self.received.u16()) & 1, 1);
                let zeros = if flags & 2 == 0 { 124 } else { 0 };
                assert!(reply(self.received.take(zeros)).iter().all(|byte| *byte == 0));
                return Some(());
            }
            let mut kind = self.option_reply(code);
            while kind != ACK && kind < 1 << 31 {
                self.has_context |= code == SET_META_CONTEXT && kind == META_CONTEXT;
                kind = self.option_reply(code);
            }
            match (code, kind) {
                (ABORT, ACK) => return None,
                (GO, ACK) => return Some(()),
                (STRUCTURED_REPLY, ACK) => self.form = Form::Structured,
                (EXTENDED_HEADERS, ACK) => self.form = Form::Extended,
                _ => {}
            }
        }
        None
    }

    /// Returns the kind of the next reply to an option.
    fn option_reply(&mut self, code: u32) -> u32 {
        assert_eq!(self.received.u64(), Some(0x0003_e889_0455_65a9));
        assert_eq!(self.received.u32(), Some(code));
        let kind = reply(self.received.u32());
        let len = reply(self.received.u32());
        reply(self.received.take(len as usize));
        kind
    }

    /// Walks over a command and its reply. `None` if the connection ends.
    fn command(&mut self) -> Option<()> {
        let is_extended = self.form == Form::Extended;
        // A header that is cut short is no command, whatever its first word.
        let mut header = Bytes(self.sent.take(if is_extended { 32 } else { 28 })?);
        if header.u32()? != if is_extended { 0x21e4_1c71 } else { 0x2560_9513 } {
            return None;
        }
        let (flags, code) = (header.u16()?, header.u16()?);
        let (cookie, offset) = (header.u64()?, header.u64()?);
        let len = if is_extended { header.u64()? } else { u64::from(header.u32()?) };
        let command = Command { flags, code, cookie, offset, len };
        let has_payload = if is_extended { flags & PAYLOAD_LEN != 0 } else { code == WRITE };
        let payload_len = if has_payload { len } else { 0 };
        // What is too long to be kept is refused before it is there.
        let payload = if payload_len <= PAYLOAD_MAX { self.sent.take(payload_len as usize)? } else { &[] };
        if code == DISC {
            return None;
        }
        let error = self.error(&command, has_payload);
        self.reply(&command, error);
        if error == 0 {
            self.change(&command, payload);
        }
        if payload_len > PAYLOAD_MAX {
            self.sent.take(usize::try_from(payload_len).ok()?)?;
        }
        (!is_extended || code != WRITE || has_payload).then_some(())
    }

    /// Returns the error that a command gets, or 0.
    fn error(&self, command: &Command, has_payload: bool) -> u32 {
        let Command { flags, code, offset, len, .. } = *command;
        let extra = match code {
            READ => 4,
            WRITE if self.form == Form::Extended => PAYLOAD_LEN,
            ZEROES => 2 | FAST,
            STATUS => REQ_ONE,
            WRITE | FLUSH | TRIM | CACHE | RESIZE => 0,
            _ => return EINVAL,
        };
        if flags & !(FUA | extra) != 0 {
            return EINVAL;
        }
        if code == FLUSH {
            return if offset == 0 && len == 0 { 0 } else { EINVAL };
        }
        if code == RESIZE {
            return if len == 0 { ENOTSUP } else { EINVAL };
        }
        let is_too_long = matches!(code, READ | WRITE) && len > PAYLOAD_MAX;
        if len == 0 || is_too_long || code == WRITE && !has_payload || code == STATUS && !self.has_context {
            return EINVAL;
        }
        if offset.checked_add(len).is_none_or(|end| end > SIZE as u64) {
            return if matches!(code, WRITE | ZEROES) { ENOSPC } else { EINVAL };
        }
        let end = (offset + len) as usize;
        let blocks = offset as usize / BLOCK * BLOCK..end.next_multiple_of(BLOCK);
        let is_fast = code == ZEROES && flags & FAST != 0;
        if is_fast && self.disk[blocks].iter().any(|byte| *byte != 0) { ENOTSUP } else { 0 }
    }

    /// Takes the reply to a command, and compares it.
    fn reply(&mut self, command: &Command, error: u32) {
        let magic = reply(self.received.u32());
        let is_read = command.code == READ && error == 0;
        if magic == 0x6744_6698 {
            let must_be_chunks = error != 0 || matches!(command.code, READ | STATUS);
            assert!(self.form == Form::Simple || self.form == Form::Structured && !must_be_chunks);
            assert_eq!(self.received.u32(), Some(error));
            assert_eq!(self.received.u64(), Some(command.cookie));
            if is_read {
                assert_eq!(self.received.take(command.len as usize), Some(self.range(command)));
            }
            return;
        }
        assert!(self.form != Form::Simple);
        let is_extended = self.form == Form::Extended;
        assert_eq!(magic, if is_extended { 0x6e8a_278c } else { 0x668e_33ef });
        assert_eq!(self.received.u16(), Some(1), "the only chunk");
        let kind = reply(self.received.u16());
        assert_eq!(self.received.u64(), Some(command.cookie));
        if is_extended {
            assert_eq!(self.received.u64(), Some(command.offset));
        }
        let len = reply(self.received.number(if is_extended { 8 } else { 4 }));
        let mut chunk = Bytes(reply(self.received.take(len as usize)));
        match kind {
            0 => assert!(error == 0 && !matches!(command.code, READ | STATUS)),
            1 => {
                assert!(is_read && chunk.u64() == Some(command.offset));
                assert_eq!(chunk.take(command.len as usize), Some(self.range(command)));
            }
            5 | 6 => {
                assert!(command.code == STATUS && error == 0 && is_extended == (kind == 6));
                self.extents(command, &mut chunk);
            }
            0x8001 => {
                assert!(error != 0 && chunk.u32() == Some(error));
                let message = reply(chunk.u16());
                assert!(std::str::from_utf8(reply(chunk.take(usize::from(message)))).is_ok());
            }
            _ => panic!("a chunk of kind {kind}"),
        }
        assert!(chunk.0.is_empty(), "bytes after the content of a chunk");
    }

    /// Takes extents, and compares them with the disk.
    fn extents(&self, command: &Command, chunk: &mut Bytes<'_>) {
        assert_eq!(chunk.u32(), Some(1), "the context");
        let width = if self.form == Form::Extended { 8 } else { 4 };
        if width == 8 {
            assert_eq!(chunk.u32().map(u64::from), Some(chunk.0.len() as u64 / 16));
        }
        let (mut at, end) = (command.offset, command.offset + command.len);
        while !chunk.0.is_empty() {
            let (len, flags) = (reply(chunk.number(width)), reply(chunk.number(width)));
            assert!(len > 0 && at + len <= end);
            let is_zero = self.disk[at as usize..(at + len) as usize].iter().all(|byte| *byte == 0);
            assert!(flags == 0 || flags == 3 && is_zero);
            at += len;
            assert!(command.flags & REQ_ONE == 0 || chunk.0.is_empty());
        }
        assert!(at > command.offset, "at least one extent");
    }

    fn range(&self, command: &Command) -> &[u8] {
        &self.disk[command.offset as usize..(command.offset + command.len) as usize]
    }

    /// Does what a command does that succeeds.
    fn change(&mut self, command: &Command, payload: &[u8]) {
        let Command { offset, len, .. } = *command;
        let (start, end) = (offset as usize, offset.saturating_add(len) as usize);
        match command.code {
            WRITE => self.disk[start..end].copy_from_slice(payload),
            ZEROES => self.disk[start..end].fill(0),
            TRIM => {
                // Whole blocks; the parts at both ends stay.
                let (start, end) = (start.next_multiple_of(BLOCK), end / BLOCK * BLOCK);
                if start < end {
                    self.disk[start..end].fill(0);
                }
            }
            _ => {}
        }
    }
}
