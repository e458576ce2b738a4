//! Records are read as they were appended: one by one, in batches, around the end of the area, by many threads.

use crate::disk::{Disk, all};
use lode_layout::Durability;
use lode_log::{AppendLog, AppendLogError, LogRecord};
use lode_pmem::Mapping;
use std::sync::Arc;
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
    assert_eq!(too_long, Err(AppendLogError::TooLong { len: max + 64, max }));
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

/// Returns contents of these lengths.
fn contents(lens: &[usize]) -> Vec<Vec<u8>> {
    lens.iter().enumerate().map(|(index, len)| vec![index as u8; *len]).collect()
}

/// Appends contents in one call, and returns their positions.
fn append_all(log: &AppendLog<Arc<Mapping>>, contents: &[Vec<u8>]) -> Vec<u64> {
    let records: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    let range = log.append_batch(&records).unwrap();
    let (mut walk, mut into, mut positions) = (log.walk(range.start), Vec::new(), Vec::new());
    while let Some(record) = walk.next(&mut into).unwrap() {
        assert_eq!(into, contents[positions.len()]);
        positions.push(record.position);
    }
    assert_eq!((positions.len(), walk.position()), (contents.len(), range.end));
    positions
}

#[test]
fn records_of_a_call_share_frames() {
    let disk = Disk::new(256 << 10, Durability::Line);
    let log = disk.open();
    // Up to 64 records, and up to 4096 bytes; a longer record has a frame of its own.
    let short: Vec<u64> = (0..64).chain([192]).collect();
    for (lens, expected) in [
        (&[0; 65][..], &short[..]),
        (&[64; 64], &short[..64]),
        (&[4000, 96, 1, 5000, 7, 8], &[0, 1, 4160, 4224, 9280, 9281]),
    ] {
        let contents = contents(lens);
        let positions = append_all(&log, &contents);
        let start = positions[0];
        assert!(
            positions.iter().map(|position| position - start).eq(expected.iter().copied()),
            "{positions:?}"
        );
        let mut into = Vec::new();
        for (index, position) in positions.iter().enumerate() {
            let next = positions.get(index + 1).copied().unwrap_or(log.end());
            assert_eq!(log.read(*position, &mut into), Ok(LogRecord { position: *position, next }));
            assert_eq!(into, contents[index]);
            for between in [position + 1, position + 8] {
                let is_record = positions.contains(&between) || between >= log.end();
                assert!(
                    is_record
                        || log.read(between, &mut into)
                            == Err(AppendLogError::NoRecord { position: between })
                );
            }
        }
    }
    log.close().unwrap();
    assert_eq!(disk.check(), []);
}

#[test]
fn walk_from_a_position_without_a_record_goes_on_after_its_frame() {
    let disk = Disk::new(64 << 10, Durability::Line);
    let log = disk.open();
    let positions = append_all(&log, &contents(&[3, 4]));
    let after = log.append(b"after").unwrap();
    let (mut walk, mut into) = (log.walk(positions[1] + 1), Vec::new());
    assert_eq!(walk.next(&mut into), Err(AppendLogError::NoRecord { position: positions[1] + 1 }));
    assert_eq!(walk.next(&mut into).unwrap().unwrap().position, after);
    assert_eq!(into, b"after");
}

#[test]
fn truncation_inside_of_a_frame_keeps_the_rest() {
    for durability in [Durability::Line, Durability::Commit] {
        let disk = Disk::new(64 << 10, durability);
        let log = disk.open();
        let contents = contents(&[60; 40]);
        let positions = append_all(&log, &contents);
        assert_eq!(
            log.truncate(positions[39] + 1),
            Err(AppendLogError::NoRecord { position: positions[39] + 1 })
        );
        log.truncate(positions[17]).unwrap();
        assert_eq!((log.head(), log.free()), (positions[17], log.capacity() - log.end()), "the frame stays");
        let mut into = Vec::new();
        let dropped = AppendLogError::Dropped { position: positions[16], head: positions[17] };
        assert_eq!(log.read(positions[16], &mut into), Err(dropped));
        let rest: Vec<_> = contents[17..].iter().cloned().map(Ok).collect();
        assert_eq!(all(&log), rest);
        drop(log);
        let log = disk.open();
        assert_eq!((all(&log), log.head()), (rest.clone(), positions[17]));
        // Until the log is full.
        let mut count = 0;
        while log.append(&[1; 60]).is_ok() {
            count += 1;
        }
        assert!(log.free() < 128 && count > 50, "{count}");
        assert_eq!(all(&log)[..rest.len()], rest);
        log.truncate(positions[39]).unwrap();
        assert_eq!(all(&log).len(), 1 + count);
        log.close().unwrap();
        assert_eq!(disk.check(), []);
    }
}

#[test]
fn walk_returns_the_rest_of_a_frame_unless_it_is_dropped() {
    let disk = Disk::new(64 << 10, Durability::Line);
    let log = disk.open();
    let positions = append_all(&log, &contents(&[5; 10]));
    let (mut walk, mut into) = (log.walk(log.head()), Vec::new());
    walk.next(&mut into).unwrap();
    log.truncate(positions[4]).unwrap();
    let dropped = AppendLogError::Dropped { position: positions[1], head: positions[4] };
    assert_eq!(walk.next(&mut into), Err(dropped));
    assert_eq!(walk.next(&mut into).unwrap().unwrap().position, positions[4]);
    assert_eq!(into, [4; 5]);
}
