//! Options of the handshake: what a client asks for before it reads or writes.

use crate::protocol::wire::{Fields, IHAVEOPT, NAME_MAX};

/// The first bytes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OptionHeader {
    /// The number of the option.
    pub(crate) code: u32,
    /// Length of the data after the header, in bytes.
    pub(crate) len: u32,
}

impl OptionHeader {
    /// Length in bytes.
    pub(crate) const LEN: usize = 16;

    /// Decodes a header. `None` if it is none: nothing after it can be understood.
    pub(crate) fn decode(bytes: &[u8; OptionHeader::LEN]) -> Option<OptionHeader> {
        let mut fields = Fields(bytes);
        if fields.u64()? != IHAVEOPT {
            return None;
        }
        Some(OptionHeader { code: fields.u32()?, len: fields.u32()? })
    }
}

/// The data of INFO and GO.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InfoQuery<'b> {
    /// Name of the export.
    pub(crate) name: &'b [u8],
    /// The numbers of the wanted information.
    pub(crate) wanted: Vec<u16>,
}

impl<'b> InfoQuery<'b> {
    /// Decodes the data. `None` if it is malformed.
    pub(crate) fn decode(bytes: &'b [u8]) -> Option<InfoQuery<'b>> {
        let mut fields = Fields(bytes);
        let name = name(&mut fields)?;
        let count = fields.u16()?;
        if fields.0.len() != usize::from(count) * 2 {
            return None;
        }
        let wanted = (0..count).map_while(|_| fields.u16()).collect();
        Some(InfoQuery { name, wanted })
    }
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MetaQuery<'b> {
    /// Name of the export.
    pub(crate) name: &'b [u8],
    /// The queries, such as `base:allocation`.
    pub(crate) queries: Vec<&'b [u8]>,
}

impl<'b> MetaQuery<'b> {
    /// Decodes the data. `None` if it is malformed.
    pub(crate) fn decode(bytes: &'b [u8]) -> Option<MetaQuery<'b>> {
        let mut fields = Fields(bytes);
        let name = name(&mut fields)?;
        let count = fields.u32()?;
        // Grows with the bytes that are there, whatever the count says.
        let mut queries = Vec::new();
        for _ in 0..count {
            let len = fields.u32()?;
            queries.push(fields.bytes(usize::try_from(len).ok()?)?);
        }
        fields.0.is_empty().then_some(MetaQuery { name, queries })
    }
}

fn name<'b>(fields: &mut Fields<'b>) -> Option<&'b [u8]> {
    let len = usize::try_from(fields.u32()?).ok()?;
    if len > NAME_MAX {
        return None;
    }
    fields.bytes(len)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn malformed_options_are_none() {
        let mut header = [0; 16];
        assert_eq!(OptionHeader::decode(&header), None);
        header[..8].copy_from_slice(b"IHAVEOPT");
        header[11] = 7;
        header[15] = 9;
        assert_eq!(OptionHeader::decode(&header), Some(OptionHeader { code: 7, len: 9 }));

        let info = b"\0\0\0\x02ab\0\x01\0\x03";
        assert_eq!(InfoQuery::decode(info), Some(InfoQuery { name: b"ab", wanted: vec![3] }));
        for len in 0..info.len() {
            assert_eq!(InfoQuery::decode(&info[..len]), None, "{len} bytes");
        }
        assert_eq!(InfoQuery::decode(b"\0\0\0\x02ab\0\x01\0\x03\0"), None, "bytes after the end");
        assert_eq!(InfoQuery::decode(b"\xff\xff\xff\xff\0\0"), None);

        let meta = b"\0\0\0\x01a\0\0\0\x02\0\0\0\x01b\0\0\0\0";
        assert_eq!(MetaQuery::decode(meta), Some(MetaQuery { name: b"a", queries: vec![b"b", b""] }));
        for len in 0..meta.len() {
            assert_eq!(MetaQuery::decode(&meta[..len]), None, "{len} bytes");
        }
        assert_eq!(MetaQuery::decode(b"\0\0\0\0\xff\xff\xff\xff"), None, "a count without queries");
    }
}
