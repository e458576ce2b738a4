//! A whole log: checking, opening, walking it and appending to it end without a panic, for any bytes, also if what describes
//! them has valid checksums. Of our own format, or of PMDK's.

use lode_layout::{
    Geometry, LINE, LogDescriptor, LogFrameHeader, LogState, PmdkHeader, PmdkKind, PmdkLog, PoolOffset,
};
use lode_log::pmdk::PmemLog;
use lode_log::{AppendLog, check};
use lode_pmem::{Mapping, Medium};
use lode_testing::memory;
use std::sync::Arc;
use uuid::Uuid;

/// Bytes of a pool of layout `log`. It is small, so most of its bytes have a meaning.
const POOL_LEN: u64 = 64 << 10;
/// Bytes of a log pool of PMDK, the fewest that it opens.
const PMDK_LEN: u64 = 2 << 20;
/// Bytes of PMDK's header and descriptor.
const PMDK_HEADERS: u64 = 8192;
const UUID: [u8; 16] = [5; 16];
/// Bytes of an operation: its kind, then its fields.
const OPERATION: usize = 26;

/// First byte of an operation that stores a word: its number and the word follow.
const WORD_OF_POOL: u8 = 0;
/// First byte of an operation that stores a descriptor.
const DESCRIPTOR: u8 = 1;
/// First byte of an operation that stores a state.
const STATE: u8 = 2;
/// First byte of an operation that stores the header of a frame.
const FRAME: u8 = 3;
/// Added to the number of records of a header whose checksum fits the bytes after it.
const SOUND: u8 = 0x80;
/// First byte of an operation that stores a word of PMDK's log.
const PMDK_WORD: u8 = 4;
const KINDS: u8 = 5;

/// Reads the bytes as operations on a sound log.
pub fn run(data: &[u8]) {
    let (medium, descriptor) = sound_log();
    let pmdk = data.first().is_some_and(|kind| kind % KINDS == PMDK_WORD).then(sound_pmdk_log);
    for operation in data.chunks_exact(OPERATION) {
        let (kind, fields) = (operation[0] % KINDS, &operation[1..]);
        let field = |at: usize| u64::from_le_bytes(fields[at * 8..at * 8 + 8].try_into().unwrap_or_default());
        let [first, second, third] = [field(0), field(1), field(2)];
        match (kind, &pmdk) {
            (PMDK_WORD, Some(pmdk)) => pmdk.store8(PoolOffset::new(first % (PMDK_HEADERS / 8) * 8), second),
            (PMDK_WORD, None) => {}
            _ => store(&medium, &descriptor, kind, [first, second, third], fields[24]),
        }
    }
    check_and_use(&medium);
    if let Some(pmdk) = pmdk {
        use_pmdk(&pmdk);
    }
}

/// Stores what an operation says: a word, a descriptor, a state or the header of a frame.
fn store(medium: &Mapping, area: &LogDescriptor, kind: u8, [first, second, third]: [u64; 3], last: u8) {
    let place = LogDescriptor::place(&geometry().extents()[0]);
    let both = |off: u64, bytes: &[u8]| {
        for copy in [0, LogDescriptor::COPY_STRIDE] {
            medium.copy(place.plus(off + copy), bytes);
        }
    };
    match kind {
        WORD_OF_POOL => medium.store8(PoolOffset::new(first % (POOL_LEN / 8) * 8), second),
        DESCRIPTOR => {
            let area_off = PoolOffset::new(first);
            let descriptor = LogDescriptor { area_off, area_len: second, key: [third, 6] };
            both(0, &descriptor.encode());
        }
        STATE => {
            let state = LogState { epoch: third as u32, head: first, end: second };
            let words = state.encode(&UUID);
            both(LogDescriptor::STATE_OFF, words.map(u64::to_le_bytes).as_flattened());
        }
        _ => {
            let mut header = LogFrameHeader {
                body_crc: (second >> 32) as u32,
                position: first / LINE * LINE,
                len: second as u32,
                epoch: third as u32,
                unproven: (third >> 32) as u32,
                count: u32::from(last & !SOUND),
            };
            let at = area.area_off.plus(header.position % area.area_len);
            let mut body = vec![0; header.body_len().min(POOL_LEN as usize)];
            let read = medium.memory().reading(|memory| {
                memory.read(at.plus(LogFrameHeader::LEN as u64), &mut body);
            });
            if last & SOUND != 0 && read.is_ok() {
                header.body_crc = crc32c::crc32c(&body);
            }
            medium.copy(at, &header.encode(LogFrameHeader::seed(&UUID, area.key)));
        }
    }
}

/// Checks, opens, walks and changes the log.
fn check_and_use(medium: &Arc<Mapping>) {
    let bytes = memory::bytes(medium);
    let findings = check(medium, &geometry(), &UUID);
    assert!(findings.iter().all(|finding| !finding.to_string().is_empty()));
    assert!(memory::bytes(medium) == bytes, "a check stores nothing");
    let Ok((log, _)) = AppendLog::open(Arc::clone(medium), &geometry(), UUID, [9; 2]) else { return };
    let (mut walk, mut record) = (log.walk(log.head()), Vec::new());
    // A walk goes on after damage, and ends.
    let mut position = walk.position();
    while !matches!(walk.next(&mut record), Ok(None)) && walk.position() > position {
        position = walk.position();
    }
    if let Ok(at) = log.append(b"another record") {
        let read = log.read(at, &mut record);
        assert!(read.is_ok() && record == b"another record", "{read:?}");
    }
    let _ = log.truncate(log.end());
    let _ = log.append_batch(&[b"one".as_slice(), b"two"]);
}

fn use_pmdk(medium: &Arc<Mapping>) {
    let findings = lode_log::pmdk::check(medium);
    assert!(findings.iter().all(|finding| !finding.to_string().is_empty()));
    let Ok(log) = PmemLog::open(Arc::clone(medium)) else { return };
    let end = log.len();
    assert!(end <= log.capacity());
    let mut bytes = [0; 64];
    let _ = log.read(0, &mut bytes);
    if log.append(b"another record").is_ok() {
        assert!(matches!(log.read(end, &mut bytes), Ok(len) if bytes[..len].starts_with(b"another record")));
    }
    assert!(log.rewind().is_ok() && log.is_empty());
}

fn geometry() -> Geometry {
    Geometry::plan(POOL_LEN).expect("the size is valid")
}

/// Makes a log with some records that was not closed, and returns its descriptor, too.
fn sound_log() -> (Arc<Mapping>, LogDescriptor) {
    let (medium, geometry) = (Arc::new(memory::persistent(POOL_LEN)), geometry());
    AppendLog::format(&medium, &geometry, &UUID, [6; 2], [1; 2]).expect("room");
    let (log, _) = AppendLog::open(Arc::clone(&medium), &geometry, UUID, [2; 2]).expect("a sound log");
    for number in 0..12_u8 {
        log.append(&[number; 40]).expect("room");
    }
    log.append_batch(&[b"first".as_slice(), b"second"]).expect("room");
    log.truncate(log.head()).expect("memory");
    let mut bytes = [0; LogDescriptor::LEN];
    let extent = geometry.extents()[0];
    let read = medium.memory().reading(|memory| memory.read(LogDescriptor::place(&extent), &mut bytes));
    read.expect("memory");
    (Arc::clone(log.medium()), LogDescriptor::decode(bytes, &extent).expect("a sound log"))
}

/// Makes a log pool of PMDK with a record.
fn sound_pmdk_log() -> Arc<Mapping> {
    let medium = Arc::new(memory::persistent(PMDK_LEN));
    let header = PmdkHeader::new(PmdkKind::Log, Uuid::from_u128(8), Uuid::from_u128(9), 1);
    PmemLog::format(&medium, &header).expect("a size that PMDK opens");
    let log = PmemLog::open(Arc::clone(&medium)).expect("a sound log");
    log.append(b"a record").expect("room");
    medium
}

/// Returns operations of each kind: none, sound ones, and those that lead to the wrong place.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let operation = |kind: u8, fields: [u64; 3], last: u8| {
        [&[kind][..], fields.map(u64::to_le_bytes).as_flattened(), &[last]].concat()
    };
    let (_, descriptor) = sound_log();
    let (area_off, area_len) = (descriptor.area_off.get(), descriptor.area_len);
    let header = |position: u64, len: u64, epoch: u64, unproven: u64, count: u8| {
        operation(FRAME, [position, len, epoch | unproven << 32], count)
    };
    vec![
        ("sound", Vec::new()),
        ("word", operation(WORD_OF_POOL, [area_off / 8 + 9, 7, 0], 0)),
        ("descriptor", operation(DESCRIPTOR, [area_off, area_len, 6], 0)),
        ("short-area", operation(DESCRIPTOR, [area_off, 1024, 6], 0)),
        ("area-outside", operation(DESCRIPTOR, [area_off, 1 << 40, 6], 0)),
        ("state", operation(STATE, [64, 128, 2], 0)),
        ("last-epoch", operation(STATE, [0, 0, u64::from(u32::MAX)], 0)),
        ("far-state", operation(STATE, [LogState::POSITION_MAX, LogState::POSITION_MAX, 2], 0)),
        ("frame", header(0, 40, 2, 0, 1)),
        ("long-frame", header(128, u64::from(u32::MAX), 2, 0, 1)),
        ("far-proof", header(128, 3, 2, u64::from(u32::MAX), 2)),
        ("wrong-table", header(128, 40, 2, 0, 3 | SOUND)),
        ("table-past-the-frame", header(256, 8, 2, 0, 64 | SOUND)),
        ("head-inside", operation(STATE, [1536 + 1, 1600, 2], 0)),
        ("head-after-the-last-record", operation(STATE, [1536 + 5, 1600, 2], 0)),
        ("pmdk-sound", operation(PMDK_WORD, [0, 0, 0], 0)),
        ("pmdk-end", operation(PMDK_WORD, [PmdkLog::OFF.get() / 8 + 1, 4096, 0], 0)),
        ("pmdk-write", operation(PMDK_WORD, [PmdkLog::WRITE_OFF.get() / 8, u64::MAX, 0], 0)),
    ]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_change_a_sound_log() {
        let (medium, _) = sound_log();
        assert_eq!(check(&medium, &geometry(), &UUID), []);
        assert!(lode_log::pmdk::check(&sound_pmdk_log()).is_empty());
        assert!(seeds().iter().all(|(_, bytes)| bytes.len() % OPERATION == 0));
    }

    #[test]
    fn hostile_logs_never_panic() {
        crate::run_mixed_seeds(&seeds(), 600, run);
    }
}
