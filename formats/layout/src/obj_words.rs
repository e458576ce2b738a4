//! The words of an object pool that Lodestone has open.
#![doc = include_str!("obj_words.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{BLOCK, InvalidField, PmdkObj, PoolOffset, WORD, Want};
use std::mem::offset_of;

/// Bytes of the words.
const LEN: u64 = 3 * BLOCK;
const SPILLS: usize = 1531;

pub(crate) const TABLE: FormatTable =
    format_table!("obj_words", ObjWordsBytes, [log, log_len, log_crc, root, root_size, spills]);

#[repr(C)]
struct ObjWordsBytes {
    log: [u8; 8],
    log_len: [u8; 8],
    log_crc: [u8; 8],
    root: [u8; 8],
    root_size: [u8; 8],
    spills: [u8; SPILLS * WORD as usize],
}

const _: () = assert!(size_of::<ObjWordsBytes>() as u64 == LEN);

/// The place of the words in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjWords {
    start: PoolOffset,
}

impl ObjWords {
    /// Bytes that the words take.
    pub const LEN: u64 = LEN;
    /// Words with the place of the log.
    pub const LOG_WORDS: usize = 3;
    /// Most open transactions with spills: more than a pool has lanes, because those that are being aborted have none.
    pub const SPILLS: u64 = SPILLS as u64;

    /// Returns the place in a pool with this descriptor.
    pub const fn of(descriptor: &PmdkObj) -> ObjWords {
        ObjWords { start: PoolOffset::new(descriptor.heap - LEN) }
    }

    /// Returns the offset of the first word.
    pub const fn start(self) -> PoolOffset {
        self.start
    }

    /// Returns the first three words of the pool `uuid`, whose log has that place.
    pub fn encode_log(log: PoolOffset, log_len: u64, uuid: &[u8; 16]) -> [u64; ObjWords::LOG_WORDS] {
        [log.get(), log_len, log_crc(log.get(), log_len, uuid)]
    }

    /// Decodes the place of the log of the pool `uuid`, which has `size` bytes: offset and length.
    ///
    /// # Errors
    /// The first word that breaks its rule, the checksum first.
    pub fn decode_log(
        words: [u64; ObjWords::LOG_WORDS],
        uuid: &[u8; 16],
        size: u64,
    ) -> Result<(PoolOffset, u64), InvalidField> {
        let [log, len, crc] = words;
        Want::Exactly(log_crc(log, len, uuid)).check("log_crc", 0, crc)?;
        Want::MultipleOf(BLOCK).check("log", 0, log)?;
        Want::AtMost(size).check("log", 0, log)?;
        Want::MultipleOf(BLOCK).check("log_len", 0, len)?;
        Want::AtMost(size - log).check("log_len", 0, len)?;
        Ok((PoolOffset::new(log), len))
    }

    /// Returns the offset of the word `root`.
    pub const fn root(self) -> PoolOffset {
        self.start.plus(offset_of!(ObjWordsBytes, root) as u64)
    }

    /// Returns the offset of the word `root_size`.
    pub const fn root_size(self) -> PoolOffset {
        self.start.plus(offset_of!(ObjWordsBytes, root_size) as u64)
    }

    /// Returns the offset of the word that leads to the spills of a transaction, of which there are [`SPILLS`](ObjWords::SPILLS).
    pub const fn spill(self, index: u64) -> PoolOffset {
        self.start.plus(offset_of!(ObjWordsBytes, spills) as u64 + index * WORD)
    }
}

fn log_crc(log: u64, len: u64, uuid: &[u8; 16]) -> u64 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(uuid), &log.to_le_bytes());
    crc32c::crc32c_append(crc, &len.to_le_bytes()).into()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn place_of_the_log_round_trips() {
        let (uuid, place) = ([9; 16], (PoolOffset::new(0x4000), 0x2f_d000));
        let words = ObjWords::encode_log(place.0, place.1, &uuid);
        assert_eq!(ObjWords::decode_log(words, &uuid, 0x80_0000), Ok(place));
        let refused = |words| ObjWords::decode_log(words, &uuid, 0x80_0000).unwrap_err().field;
        assert_eq!(refused([words[0] ^ 0x1000, words[1], words[2]]), "log_crc");
        for (log, len, field) in [
            (0x4001, 0, "log"),
            (0x80_1000, 0, "log"),
            (0x4000, 7, "log_len"),
            (0x7f_f000, 0x2000, "log_len"),
        ] {
            assert_eq!(refused(ObjWords::encode_log(PoolOffset::new(log), len, &uuid)), field);
        }
    }

    #[test]
    fn words_end_at_the_heap() {
        let descriptor = PmdkObj { layout: Vec::new(), lanes: 0x2000, lane_count: 1024, heap: 0x30_2000 };
        let words = ObjWords::of(&descriptor);
        let places = [words.root(), words.root_size(), words.spill(0), words.spill(ObjWords::SPILLS - 1)];
        assert_eq!(places.map(PoolOffset::get), [0x2f_f018, 0x2f_f020, 0x2f_f028, 0x30_1ff8]);
    }
}
