//! The entries of a redo record: any words decode to entries that survive a round trip, or to an error that ends them.

use lode_layout::{CoverEntry, Entries, Entry, PoolOffset, Record};

/// Reads the bytes as the words of a record's body, and ignores an incomplete last word.
pub fn run(data: &[u8]) {
    let (words, _) = data.as_chunks::<8>();
    let body: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let entries: Vec<Entry> = Entries::new(&body).map_while(Result::ok).collect();
    let mut again = Record::new();
    for entry in &entries {
        again.push(*entry);
    }
    assert!(again.body().len() <= body.len());
    assert!(Entries::new(again.body()).map(Result::ok).eq(entries.into_iter().map(Some)));
    check_shortcut(&body);
}

/// Compares the fast path for an entry of one word with the general path.
fn check_shortcut(body: &[u64]) {
    let mut entries = Entries::new(body);
    loop {
        let word = entries.clone().next_word();
        match (word, entries.next()) {
            (Some((at, word)), found) => assert_eq!(found, Some(Ok(Entry::Words { at, words: &[word] }))),
            (None, Some(Ok(Entry::Words { words, .. }))) => assert_ne!(words.len(), 1),
            (None, Some(_)) => {}
            (None, None) => break,
        }
    }
}

/// Returns a body with an entry of every kind.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let at = PoolOffset::new(0x1_2345_6788);
    let mut record = Record::new();
    for entry in [
        Entry::Words { at, words: &[1, 2, 3] },
        Entry::SetBits { at, mask: 5 },
        Entry::ClearBits { at, mask: 1 << 47 },
        Entry::Bytes { at, len: 11, words: &[7, 8] },
        Entry::Zero { at, len: 64 },
        Entry::Payload { at, len: 4096, crc: 0xdead_beef },
        Entry::Continue { at, len: 8, crc: 1 },
        Entry::Cover(CoverEntry::Image { at, words: &[1, 2] }),
        Entry::Cover(CoverEntry::AtHome { at, len: 9, words: &[3, 4] }),
        Entry::Cover(CoverEntry::SetBits { at, mask: u64::MAX }),
        Entry::Cover(CoverEntry::ClearBits { at, mask: 1 << 63 }),
        Entry::Cover(CoverEntry::Settled { id: 1 }),
        Entry::Cover(CoverEntry::Pending { id: u64::MAX }),
    ] {
        record.push(entry);
    }
    vec![("all-kinds", record.body().iter().flat_map(|word| word.to_le_bytes()).collect())]
}
