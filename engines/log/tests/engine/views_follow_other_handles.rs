//! Views see what another handle appends and drops, without its lock.

use crate::disk::flip_in_file;
use lode_layout::Durability;
use lode_log::pmdk::{PmemLogError, PmemLogPool, PmemLogView};
use lode_log::{AppendLogError, LogPool, LogView};
use lode_pool::{Access, CreateOptions, OpenOptions};

fn next(view: &mut LogView) -> Result<Option<Vec<u8>>, AppendLogError> {
    let mut content = Vec::new();
    Ok(view.next(&mut content)?.map(|_| content))
}

#[test]
fn view_follows_appends_truncations_and_openings() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    let options = CreateOptions::new(1 << 20, LogPool::layout());
    let durability = Some(Durability::Line);
    let pool = LogPool::create(&path, &CreateOptions { durability, ..options }).unwrap();
    pool.log().append(b"one").unwrap();
    let mut view = LogView::open(&path).unwrap();
    assert_eq!(next(&mut view), Ok(Some(b"one".to_vec())));
    assert_eq!(next(&mut view), Ok(None));
    pool.log().append_batch(&[b"two", b"three"]).unwrap();
    assert_eq!(next(&mut view), Ok(Some(b"two".to_vec())));
    let four = pool.log().append(b"four").unwrap();
    let position = view.position();
    pool.log().truncate(four).unwrap();
    assert_eq!(next(&mut view), Err(AppendLogError::Dropped { position, head: four }));
    assert_eq!(next(&mut view), Ok(Some(b"four".to_vec())));
    // Several laps, each read before it is dropped.
    let mut last = 0;
    for round in 0..2000_u32 {
        let content = round.to_le_bytes().repeat(400);
        last = pool.log().append(&content).unwrap();
        assert_eq!(next(&mut view), Ok(Some(content)), "round {round}");
        pool.log().truncate(last).unwrap();
    }
    // Another opening begins an epoch, without and with a note of the end.
    let end = view.position();
    drop(pool);
    for closes in [false, true, false] {
        let options = OpenOptions { durability, ..OpenOptions::new(Access::ReadWrite) };
        let pool = LogPool::open(&path, &options).unwrap();
        pool.log().append(b"later").unwrap();
        assert_eq!(next(&mut view), Ok(Some(b"later".to_vec())));
        if closes {
            pool.close().unwrap();
        }
        assert_eq!(next(&mut view), Ok(None));
    }
    assert_eq!(view.seek(last + 8), Err(AppendLogError::NoRecord { position: last + 8 }));
    view.seek(end).unwrap();
    assert_eq!(next(&mut view), Ok(Some(b"later".to_vec())));
}

#[test]
fn view_reads_a_frame_while_its_records_are_dropped() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    let options = CreateOptions::new(1 << 20, LogPool::layout());
    let pool =
        LogPool::create(&path, &CreateOptions { durability: Some(Durability::Line), ..options }).unwrap();
    let range = pool.log().append_batch(&[b"one", b"two", b"three", b"four", b"five"]).unwrap();
    let mut view = LogView::open(&path).unwrap();
    assert_eq!(next(&mut view), Ok(Some(b"one".to_vec())));
    pool.log().truncate(range.start + 1).unwrap();
    assert_eq!(next(&mut view), Ok(Some(b"two".to_vec())), "the rest of the frame is still there");
    pool.log().truncate(range.start + 3).unwrap();
    let dropped = AppendLogError::Dropped { position: range.start + 2, head: range.start + 3 };
    assert_eq!(next(&mut view), Err(dropped));
    assert_eq!(next(&mut view), Ok(Some(b"four".to_vec())));
    assert_eq!(LogView::open(&path).unwrap().head(), range.start + 3);
    view.seek(range.start + 4).unwrap();
    assert_eq!(next(&mut view), Ok(Some(b"five".to_vec())));
    assert_eq!(next(&mut view), Ok(None));
    let wrong = range.start + 5;
    assert_eq!(view.seek(wrong), Err(AppendLogError::NoRecord { position: wrong }));
    assert_eq!(
        view.seek(range.start),
        Err(AppendLogError::Dropped { position: range.start, head: range.start + 3 })
    );
}

/// A record of an earlier opening that lies where the log of this one ends is none.
#[test]
fn record_of_another_epoch_is_not_followed() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    let options = CreateOptions::new(1 << 20, LogPool::layout());
    let options = CreateOptions { durability: Some(Durability::Line), ..options };
    let pool = LogPool::create(&path, &options).unwrap();
    // Records with frames of their own.
    let contents = [[b'1'; 4064], [b'2'; 4064], [b'3'; 4064]];
    pool.log().append_batch(&[&contents[0], &contents[1], &contents[2]]).unwrap();
    drop(pool);
    // The second record is torn, and the third one is whole: the log ends before both.
    flip_in_file(&path, &contents[1]);
    let mut view = LogView::open(&path).unwrap();
    let options = OpenOptions { durability: options.durability, ..OpenOptions::new(Access::ReadWrite) };
    let pool = LogPool::open(&path, &options).unwrap();
    assert_eq!(pool.log().append(b"new"), Ok(4096));
    assert_eq!(next(&mut view), Ok(Some(contents[0].to_vec())));
    assert_eq!(next(&mut view), Ok(Some(b"new".to_vec())));
    assert_eq!(next(&mut view), Ok(None));
}

#[test]
fn view_of_a_pool_of_pmdk_follows_appends_and_rewinds() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("pool");
    let pool = PmemLogPool::create(&path, 2 << 20, Some(Durability::Line)).unwrap();
    let mut view = PmemLogView::open(&path).unwrap();
    let mut into = [0; 5];
    assert_eq!(view.next(&mut into), Ok(0));
    pool.log().append(b"one two").unwrap();
    assert_eq!(view.next(&mut into), Ok(5));
    assert_eq!(&into, b"one t");
    pool.log().rewind().unwrap();
    pool.log().append(b"new").unwrap();
    assert_eq!(view.next(&mut into), Err(PmemLogError::Rewound));
    assert_eq!(view.next(&mut into), Ok(3));
    assert_eq!(&into[..3], b"new");
    assert_eq!((view.seek(4), view.seek(3)), (Ok(false), Ok(true)));
}
