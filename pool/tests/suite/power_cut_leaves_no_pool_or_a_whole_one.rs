//! A power cut at any drain of format, update and grow leaves no pool or a whole one, the old or the new.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::cut::CutMedium;
use lode_layout::{CHUNK, Geometry, Header, HeaderError, LayoutName, PoolOffset, Rung};
use lode_pmem::Medium;
use lode_pool::{CopyFault, HeaderCopy, Headers, PoolError, check_headers, format, repair_headers};
use uuid::Uuid;

const SIZE: u64 = 128 << 10;
/// Bytes that the content closure stores at the start of the second chunk of the heap.
const CONTENT: &[u8; 64] = &[0xc7; 64];

fn header(name: &str) -> Header {
    let layout = LayoutName::new(name).unwrap();
    Header::new(Uuid::from_u128(7), layout, Geometry::plan(SIZE).unwrap(), Rung::Line, 1)
}

fn formatted(medium: &CutMedium, name: &str) -> Headers {
    format(medium, header(name), write_content).unwrap()
}

fn write_content(medium: &CutMedium, header: &Header) -> Result<(), PoolError> {
    let extent = header.geometry.extents()[0];
    let at = extent.start.plus(extent.table_len);
    medium.store(at, CONTENT);
    medium.store8(extent.start, 1);
    medium.flush(at, 64);
    medium.flush(extent.start, 8);
    Ok(())
}

/// Asserts that the pool is whole: content, table, log and slots as format leaves them.
fn assert_whole(medium: &CutMedium, header: &Header) {
    let extent = header.geometry.extents()[0];
    assert!(
        medium
            .memory()
            .reading(|memory| memory.equals(extent.start.plus(extent.table_len), CONTENT))
            .unwrap()
    );
    assert_eq!(medium.memory().reading(|memory| memory.load8(extent.start)).unwrap(), 1);
    for at in (8..extent.table_len).step_by(8) {
        assert_eq!(
            medium.memory().reading(|memory| memory.load8(extent.start.plus(at))).unwrap(),
            0,
            "table word {at:#x}"
        );
    }
    for at in (Geometry::SLOT_0.get()..extent.start.get()).step_by(8) {
        assert_eq!(
            medium.memory().reading(|memory| memory.load8(PoolOffset::new(at))).unwrap(),
            0,
            "slots and log at {at:#x}"
        );
    }
}

fn is_no_pool(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::Headers {
            a: CopyFault::Invalid(HeaderError::NotAPool { .. } | HeaderError::Checksum { .. }),
            b: CopyFault::Invalid(HeaderError::NotAPool { .. } | HeaderError::Checksum { .. }),
        }
    )
}

#[test]
fn format_on_garbage() {
    let medium = CutMedium::new(vec![0xa5; SIZE as usize]);
    formatted(&medium, "new");
    assert_eq!(medium.drains(), 4);
    let (mut none, mut whole) = (0, 0);
    for image in medium.take_images() {
        let (left, drain) = (&medium, image.drain);
        left.show(&image);
        match Headers::read(left) {
            Ok(headers) => {
                assert!(drain >= 2, "a pool after drain {drain}");
                assert_eq!(headers.current(), &header("new"));
                assert_whole(left, headers.current());
                whole += 1;
            }
            Err(error) => {
                assert!(drain <= 2 && is_no_pool(&error), "after drain {drain}: {error}");
                none += 1;
            }
        }
    }
    assert!(none > 100 && whole > 100, "{none} images without a pool, {whole} with one");
}

#[test]
fn format_over_another_pool() {
    let old = CutMedium::new(vec![0; SIZE as usize]);
    // The older pool has been updated often: its headers look newer than those of the new pool.
    let mut headers = formatted(&old, "old");
    for rung in [Rung::None, Rung::Commit, Rung::Byte] {
        headers.force_rung(&old, rung).unwrap();
    }
    let medium = CutMedium::new(old.bytes());
    formatted(&medium, "new");
    let (mut old, mut none, mut new) = (0, 0, 0);
    for image in medium.take_images() {
        let drain = image.drain;
        medium.show(&image);
        match Headers::read(&medium) {
            Ok(headers) if headers.current().layout.as_str() == "old" => {
                assert_eq!(drain, 0);
                old += 1;
            }
            Ok(_) => {
                assert!(drain >= 2);
                new += 1;
            }
            Err(error) => {
                assert!(is_no_pool(&error), "after drain {drain}: {error}");
                none += 1;
            }
        }
    }
    assert!(old > 0 && none > 0 && new > 0, "{old} {none} {new}");
}

#[test]
fn content_that_fails_leaves_no_pool() {
    let medium = CutMedium::new(vec![0; SIZE as usize]);
    let refused = format(&medium, header("x"), |_, _| Err(PoolError::Exists));
    assert!(matches!(refused, Err(PoolError::Exists)));
    assert!(is_no_pool(&Headers::read(&medium).unwrap_err()));
}

#[test]
fn content_outside_of_the_medium_leaves_no_pool() {
    let medium = CutMedium::new(vec![0; SIZE as usize]);
    let refused = format(&medium, header("x"), |medium, _| -> Result<(), PoolError> {
        medium.store8(PoolOffset::new(SIZE), 1);
        Ok(())
    });
    assert!(matches!(refused, Err(PoolError::Memory { .. })));
    assert!(is_no_pool(&Headers::read(&medium).unwrap_err()));
}

#[test]
fn grow() {
    // Grow far enough for a second extent. Its table covers garbage.
    let (old_size, new_size) = (SIZE, (32 << 20) + 4 * CHUNK);
    let mut bytes = vec![0; old_size as usize];
    bytes.resize(new_size as usize, 0xa5);
    let medium = CutMedium::new(bytes);
    formatted(&medium, "kv");
    let medium = CutMedium::new(medium.bytes());
    let mut headers = Headers::read(&medium).unwrap();
    let old = *headers.current();
    headers.grow(&medium, new_size).unwrap();
    let new = *headers.current();
    assert_eq!((old.geometry.size(), new.geometry.size()), (old_size, new_size));
    assert_eq!((new.geometry.extents().len(), medium.drains()), (2, 3));
    let (mut before, mut after) = (0, 0);
    for image in medium.take_images() {
        let (left, drain) = (&medium, image.drain);
        left.show(&image);
        let mut headers = Headers::read(left).unwrap();
        if *headers.current() == old {
            assert!(drain <= 1, "the old size after drain {drain}");
            before += 1;
        } else {
            assert!(drain >= 1, "the new size after drain {drain}");
            assert_eq!(*headers.current(), new);
            let extent = new.geometry.extents()[1];
            for at in (0..extent.table_len).step_by(8) {
                assert_eq!(left.memory().reading(|memory| memory.load8(extent.start.plus(at))).unwrap(), 0);
            }
            after += 1;
        }
        assert_whole(left, headers.current());
        // The next open completes the update that the cut interrupted; a second repair finds no damage.
        headers.finish(left).unwrap();
        repair_headers(left).unwrap();
        assert_eq!(check_headers(left), []);
        assert_eq!(repair_headers(left).unwrap(), None);
        assert_eq!(Headers::read(left).unwrap().current(), headers.current());
    }
    assert!(before > 1 && after > 1);
}

#[test]
fn update_when_only_one_copy_is_left() {
    for lost in [HeaderCopy::A, HeaderCopy::B] {
        let medium = CutMedium::new(vec![0; SIZE as usize]);
        formatted(&medium, "kv");
        let mut bytes = medium.bytes();
        bytes[lost.at().get() as usize + 100] ^= 1;
        let medium = CutMedium::new(bytes);
        let mut headers = Headers::read(&medium).unwrap();
        let watched = Some(1);
        headers.set_dirty_shutdowns(&medium, watched).unwrap();
        for image in medium.take_images() {
            medium.show(&image);
            let left = Headers::read(&medium)
                .unwrap_or_else(|error| panic!("copy {lost} lost, cut in drain {}: {error}", image.drain));
            assert!([None, watched].contains(&left.current().watched));
        }
    }
}

#[test]
fn a_refused_drain_poisons_the_handle() {
    let medium = CutMedium::new(vec![0; SIZE as usize]);
    let mut headers = formatted(&medium, "kv");
    for refused in [4, 5] {
        medium.refuse(refused);
        let error = headers.force_rung(&medium, Rung::None).unwrap_err();
        match (refused, error) {
            (4, PoolError::Drain { error }) => assert_eq!(error.errno, 5),
            (5, PoolError::Poisoned) => assert_eq!(medium.drains(), 5),
            (_, error) => panic!("{error}"),
        }
    }
}

#[test]
fn format_that_the_device_refuses_makes_no_pool() {
    for refused in 0..3 {
        let medium = CutMedium::new(vec![0; SIZE as usize]);
        medium.refuse(refused);
        let error = format(&medium, header("kv"), write_content).unwrap_err();
        assert!(matches!(error, PoolError::Drain { .. }));
        assert_eq!(medium.drains(), refused + 1);
        if refused < 2 {
            assert!(is_no_pool(&Headers::read(&medium).unwrap_err()));
        }
    }
}
