//! The entries of a redo record: any words are entries that come back as they were, or an error that ends them.

use lode_layout::{Entries, Entry, PoolOffset};

/// Reads the bytes as the words of a record's body; what is left of the last word is ignored.
pub fn run(data: &[u8]) {
    let (words, _) = data.as_chunks::<8>();
    let body: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let entries: Vec<Entry> = Entries::new(&body).map_while(Result::ok).collect();
    let mut again = Vec::new();
    for entry in &entries {
        entry.encode(&mut again);
    }
    assert!(again.len() <= body.len());
    assert!(Entries::new(&again).map(Result::ok).eq(entries.into_iter().map(Some)));
}

/// A body with an entry of every kind.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let at = PoolOffset::new(0x1_2345_6788);
    let mut body = Vec::new();
    for entry in [
        Entry::Words { at, words: &[1, 2, 3] },
        Entry::SetBits { at, mask: 5 },
        Entry::ClearBits { at, mask: 1 << 47 },
        Entry::Bytes { at, len: 11, words: &[7, 8] },
        Entry::Zero { at, len: 64 },
        Entry::Payload { at, len: 4096, crc: 0xdead_beef },
        Entry::Continue { at, len: 8, crc: 1 },
    ] {
        entry.encode(&mut body);
    }
    vec![("all-kinds", body.iter().flat_map(|word| word.to_le_bytes()).collect())]
}
