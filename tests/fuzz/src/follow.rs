//! The messages between a server of a pool in use and its clients: any bytes give an error, or messages that survive a
//! round trip.

use lode_follow::{BlockClass, FailureKind, Item, PoolInfo, PoolStats, Request, Response, TreeFields};
use lode_layout::Header;
use std::fmt::Debug;
use std::io;
use std::ops::Bound;

/// Reads the bytes as frames, and again as one message in a frame of the right length, as either side could send them.
pub fn run(data: &[u8]) {
    let framed = [&(data.len() as u64).to_le_bytes()[..], data].concat();
    for bytes in [data, &framed] {
        check(bytes, |from| Request::read(from), |request, to| request.write(to));
        check(bytes, |from| Response::read(from), |response, to| response.write(to));
    }
}

fn check<T: Debug + PartialEq>(
    bytes: &[u8],
    read: impl Fn(&mut &[u8]) -> io::Result<Option<T>>,
    write: impl Fn(&T, &mut Vec<u8>) -> io::Result<()>,
) {
    let mut rest = bytes;
    while let Ok(Some(message)) = read(&mut rest) {
        let mut again = Vec::new();
        assert!(write(&message, &mut again).is_ok());
        assert_eq!(read(&mut &again[..]).ok().flatten().as_ref(), Some(&message));
    }
}

/// Returns a message of each kind, without its frame.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let key = || b"lodestone".to_vec().into();
    let range = (Bound::Included(key()), Bound::Excluded(key()));
    let requests = [
        ("request_tree", Request::Tree { name: "stones".into() }),
        ("request_names", Request::TreeNames),
        ("request_get", Request::Get { root: 1 << 20, key: key() }),
        ("request_count", Request::Count { root: 1 << 20 }),
        (
            "request_scan",
            Request::Scan { root: 1 << 20, from: range.0, to: range.1, is_reverse: true, entries_max: 64 },
        ),
        ("request_read", Request::Read { at: 1 << 20, len: 24 }),
        ("request_info", Request::Info),
        ("request_stats", Request::Stats),
    ];
    let entry = Item::Entry { key: key(), value: b"magnetite".to_vec().into() };
    let damage = Item::Damage { message: "a node is damaged".into(), count: 2 };
    let fields = TreeFields { root: 1 << 20, key_type: "u64".into(), value_type: "String".into() };
    let class = BlockClass { block_size: 32, superblocks: 1, blocks: 500, used: 7 };
    let mut responses = vec![
        ("response_welcome", Response::Welcome { layout: "kv".into(), root: 1 << 20 }),
        ("response_failed", Response::Failed { kind: FailureKind::Busy, message: "try again".into() }),
        ("response_tree", Response::Tree(Some(fields))),
        ("response_names", Response::TreeNames(vec!["ores".into(), "stones".into()])),
        ("response_value", Response::Value(Some(b"magnetite".to_vec().into()))),
        ("response_count", Response::Count(3)),
        ("response_batch", Response::Batch { items: vec![entry, damage], is_last: true }),
        ("response_bytes", Response::Bytes(vec![0; 24].into())),
        (
            "response_stats",
            Response::Stats(PoolStats { size: 1 << 20, classes: vec![class], ..Default::default() }),
        ),
    ];
    if let Some(header) = header() {
        let info = PoolInfo {
            header,
            medium: "commit: the file system is ext4".into(),
            durability: "commit".into(),
            damaged_header: None,
            was_closed: true,
            replayed: 0,
            snapshots: 1,
            snapshot_memory: 4096,
            snapshot_space: 512,
        };
        responses.push(("response_info", Response::Info(Box::new(info))));
    }
    let requests = requests.into_iter().map(|(name, message)| (name, unframed(|to| message.write(to))));
    let responses = responses.into_iter().map(|(name, message)| (name, unframed(|to| message.write(to))));
    requests.chain(responses).collect()
}

fn header() -> Option<Header> {
    let (_, bytes) = crate::header::seeds().into_iter().next()?;
    Header::decode(&bytes).ok()
}

fn unframed(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Vec<u8> {
    let mut frame = Vec::new();
    write(&mut frame).expect("a vector takes all");
    frame.split_off(8)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_are_messages() {
        assert_eq!(seeds().len(), 18);
        for (name, bytes) in seeds() {
            let framed = [&(bytes.len() as u64).to_le_bytes()[..], &bytes].concat();
            let is_request = name.starts_with("request");
            assert!(!is_request || matches!(Request::read(&mut &framed[..]), Ok(Some(_))), "{name}");
            assert!(is_request || matches!(Response::read(&mut &framed[..]), Ok(Some(_))), "{name}");
        }
    }
}
