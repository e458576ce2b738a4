//! Numbers of the protocol, by the names of its specification (doc/proto.md of the nbd project). All are big-endian.

/// First word of the server.
pub(crate) const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second word of the server, and first word of each option.
pub(crate) const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// First word of each reply to an option.
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(crate) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
pub(crate) const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Handshake flags of both sides.
pub(crate) const FLAG_FIXED_NEWSTYLE: u16 = 1;
pub(crate) const FLAG_NO_ZEROES: u16 = 2;

/// Transmission flags.
pub(crate) const FLAG_HAS_FLAGS: u16 = 1;
pub(crate) const FLAG_READ_ONLY: u16 = 1 << 1;
pub(crate) const FLAG_SEND_FLUSH: u16 = 1 << 2;
pub(crate) const FLAG_SEND_FUA: u16 = 1 << 3;
pub(crate) const FLAG_SEND_TRIM: u16 = 1 << 5;
pub(crate) const FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
pub(crate) const FLAG_SEND_DF: u16 = 1 << 7;
pub(crate) const FLAG_CAN_MULTI_CONN: u16 = 1 << 8;
/// Of the experimental extension RESIZE, as the next code.
pub(crate) const FLAG_SEND_RESIZE: u16 = 1 << 9;
pub(crate) const FLAG_SEND_CACHE: u16 = 1 << 10;
pub(crate) const FLAG_SEND_FAST_ZERO: u16 = 1 << 11;

/// Options.
pub(crate) const OPT_EXPORT_NAME: u32 = 1;
pub(crate) const OPT_ABORT: u32 = 2;
pub(crate) const OPT_LIST: u32 = 3;
pub(crate) const OPT_INFO: u32 = 6;
pub(crate) const OPT_GO: u32 = 7;
pub(crate) const OPT_STRUCTURED_REPLY: u32 = 8;
pub(crate) const OPT_LIST_META_CONTEXT: u32 = 9;
pub(crate) const OPT_SET_META_CONTEXT: u32 = 10;
pub(crate) const OPT_EXTENDED_HEADERS: u32 = 11;

/// Replies to options.
pub(crate) const REP_ACK: u32 = 1;
pub(crate) const REP_SERVER: u32 = 2;
pub(crate) const REP_INFO: u32 = 3;
pub(crate) const REP_META_CONTEXT: u32 = 4;
pub(crate) const REP_ERR_UNSUP: u32 = 0x8000_0001;
pub(crate) const REP_ERR_INVALID: u32 = 0x8000_0003;
pub(crate) const REP_ERR_UNKNOWN: u32 = 0x8000_0006;
pub(crate) const REP_ERR_TOO_BIG: u32 = 0x8000_0009;
pub(crate) const REP_ERR_EXT_HEADER_REQD: u32 = 0x8000_000a;

/// Information about an export.
pub(crate) const INFO_EXPORT: u16 = 0;
pub(crate) const INFO_NAME: u16 = 1;
pub(crate) const INFO_BLOCK_SIZE: u16 = 3;

/// Commands.
pub(crate) const CMD_READ: u16 = 0;
pub(crate) const CMD_WRITE: u16 = 1;
pub(crate) const CMD_DISC: u16 = 2;
pub(crate) const CMD_FLUSH: u16 = 3;
pub(crate) const CMD_TRIM: u16 = 4;
pub(crate) const CMD_CACHE: u16 = 5;
pub(crate) const CMD_WRITE_ZEROES: u16 = 6;
pub(crate) const CMD_BLOCK_STATUS: u16 = 7;
pub(crate) const CMD_RESIZE: u16 = 8;

/// Command flags.
pub(crate) const CMD_FLAG_FUA: u16 = 1;
pub(crate) const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
pub(crate) const CMD_FLAG_DF: u16 = 1 << 2;
pub(crate) const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
pub(crate) const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;
pub(crate) const CMD_FLAG_PAYLOAD_LEN: u16 = 1 << 5;

/// Chunks of structured and extended replies.
pub(crate) const REPLY_FLAG_DONE: u16 = 1;
pub(crate) const REPLY_NONE: u16 = 0;
pub(crate) const REPLY_OFFSET_DATA: u16 = 1;
pub(crate) const REPLY_BLOCK_STATUS: u16 = 5;
pub(crate) const REPLY_BLOCK_STATUS_EXT: u16 = 6;
pub(crate) const REPLY_ERROR: u16 = 0x8001;

/// The only metadata context, and its number.
pub(crate) const BASE_ALLOCATION: &[u8] = b"base:allocation";
pub(crate) const BASE_ALLOCATION_ID: u32 = 1;
/// Flags of an extent of `base:allocation`: never written or given up, and reads as zeros.
pub(crate) const STATE_HOLE_ZERO: u32 = 3;

/// Greatest number of bytes of a read or a write.
pub(crate) const PAYLOAD_MAX: u32 = 32 << 20;
/// Greatest length of the name of an export, in bytes.
pub(crate) const NAME_MAX: usize = 4096;
/// Greatest length of an option's data, in bytes: that of a name and queries.
pub(crate) const OPTION_MAX: u32 = 64 << 10;

/// Splits big-endian fields off the front of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'b>(pub(crate) &'b [u8]);

impl<'b> Fields<'b> {
    /// Splits off `len` bytes. `None` if there are fewer.
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'b [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}
