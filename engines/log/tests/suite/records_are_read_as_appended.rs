//! Records are read as they were appended: one by one, in batches, around the end of the area, by many threads.

use crate::disk::{Disk, all};
use lode_layout::Durability;
use lode_log::AppendLogError;
use std::thread;

#[test]
fn records_of_any_length_come_back() {
    for durability in [Durability::Line, Durability::Commit] {
        let disk = Disk::new(256 << 10, durability);
        let log = disk.open();
        let contents: Vec<Vec<u8>> =
            [0, 1, 31, 32, 33, 63, 64, 65, 4096, 5001].map(|len| vec![len as u8; len]).to_vec();
        for content in &contents {
            let position = log.append(content).unwrap();
            let mut into = Vec::new();
            assert_eq!(log.read(position, &mut into).unwrap().position, position);
            assert_eq!(into, *content);
        }
        let batch: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        let range = log.append_batch(&batch).unwrap();
        let joined = log.appendv(&batch).unwrap();
        assert_eq!(range.end, joined);
        let expected: Vec<_> =
            contents.iter().chain(&contents).cloned().chain([contents.concat()]).map(Ok).collect();
        assert_eq!(all(&log), expected);
        log.persist().unwrap();
        drop(log);
        let log = disk.open();
        assert_eq!(all(&log), expected);
        log.close().unwrap();
        assert_eq!(disk.check(), []);
        assert_eq!(all(&disk.open()), expected);
    }
}

#[test]
fn full_log_refuses_and_goes_on_after_truncation() {
    let disk = Disk::new(64 << 10, Durability::Line);
    let log = disk.open();
    let content = vec![7; 1000];
    let mut positions = Vec::new();
    for round in 0..100 {
        let position = loop {
            match log.append(&content) {
                Ok(position) => break position,
                Err(AppendLogError::Full { need, free }) => {
                    assert!(need > free, "{need} {free}");
                    log.truncate(positions.remove(0)).unwrap();
                }
                Err(error) => panic!("round {round}: {error}"),
            }
        };
        positions.push(position);
    }
    assert!(log.end() > 3 * log.capacity(), "the area was used again");
    assert!(all(&log).iter().all(|record| record.as_ref() == Ok(&content)));
    assert_eq!(disk.check(), []);
    let max = log.append_max();
    let too_long = log.append(&vec![0; max as usize - 31]);
    assert_eq!(too_long, Err(AppendLogError::TooLong { len: max + 1, max }));
    let end = log.rewind().unwrap();
    assert_eq!((all(&log), log.head(), log.free()), (vec![], end, log.capacity()));
    log.append(&vec![0; max as usize - 32]).unwrap();
    assert_eq!(log.truncate(end + 8), Err(AppendLogError::NoRecord { position: end + 8 }));
    let mut into = Vec::new();
    assert_eq!(log.read(0, &mut into), Err(AppendLogError::Dropped { position: 0, head: end }));
}

#[test]
fn followers_see_only_what_is_durable() {
    let disk = Disk::new(64 << 10, Durability::Commit);
    let log = disk.open();
    let (mut walk, mut follower, mut into) = (log.walk(0), log.follow(0), Vec::new());
    log.append(b"one").unwrap();
    assert!(follower.next(&mut into).unwrap().is_none());
    assert!(walk.next(&mut into).unwrap().is_some());
    log.persist().unwrap();
    assert!(follower.next(&mut into).unwrap().is_some());
    assert_eq!(into, b"one");
}

#[test]
fn threads_append_and_follow_at_once() {
    const EACH: u64 = 300;
    let disk = Disk::new(1 << 20, Durability::Line);
    let log = disk.open();
    thread::scope(|scope| {
        for writer in 0..3 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..EACH {
                    log.append(&(writer * EACH + number).to_le_bytes()).unwrap();
                }
            });
        }
        let (mut follower, mut into, mut next) = (log.follow(0), Vec::new(), [0; 3]);
        while next != [EACH; 3] {
            if follower.next(&mut into).unwrap().is_none() {
                thread::yield_now();
                continue;
            }
            let value = u64::from_le_bytes(into[..].try_into().unwrap());
            let (writer, number) = ((value / EACH) as usize, value % EACH);
            assert_eq!(number, next[writer], "the records of a thread are in order");
            next[writer] += 1;
        }
    });
}
