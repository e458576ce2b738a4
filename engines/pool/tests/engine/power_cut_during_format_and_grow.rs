//! A power cut at any drain of format, update and grow leaves no pool or a whole one, the old or the new.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_layout::{CHUNK, Durability, Geometry, Header, HeaderError, LayoutName, PoolOffset};
use lode_pmem::{Counted, Medium};
use lode_pool::{HeaderCopy, HeaderCopyError, Headers, PoolError, check_headers, format, repair_headers};
use lode_sim::{Cpu, Machine, Recording, SimMedium};
use lode_testing::{memory, seed};
use uuid::Uuid;

const SIZE: u64 = 128 << 10;
/// Bytes that the content closure stores at the start of the second chunk of the heap.
const CONTENT: &[u8; 64] = &[0xc7; 64];

/// Memory at durability line that holds `bytes`, and can lose power.
fn simulated(bytes: &[u8]) -> SimMedium {
    let medium =
        SimMedium::new(bytes.len() as u64, Machine { cpu: Cpu::X86, durability: Durability::Line }).unwrap();
    medium.memory().store(PoolOffset::NULL, bytes);
    medium
}

/// A file whose sync number `refused`, from 0, fails.
fn failing(refused: u64) -> Counted<SimMedium> {
    let medium = SimMedium::new(SIZE, Machine { cpu: Cpu::X86, durability: Durability::Commit }).unwrap();
    Counted::new(medium.failing_drain(Some(refused)))
}

fn header(name: &str) -> Header {
    let layout = LayoutName::new(name).unwrap();
    Header::new(Uuid::from_u128(7), layout, Geometry::plan(SIZE).unwrap(), Durability::Line, 1)
}

fn formatted<M: Medium>(medium: &M, name: &str) -> Headers {
    format(medium, header(name), write_content).unwrap()
}

fn write_content<M: Medium>(medium: &M, header: &Header) -> Result<(), PoolError> {
    let extent = header.geometry.extents()[0];
    let at = extent.start.plus(extent.table_len);
    medium.store(at, CONTENT);
    medium.store8(extent.start, 1);
    medium.flush(at, 64);
    medium.flush(extent.start, 8);
    Ok(())
}

/// Asserts that the pool is whole: content, table, log and slots as format leaves them.
fn assert_whole(medium: &SimMedium, header: &Header) {
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

fn has_no_pool(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::Headers {
            a: HeaderCopyError::Invalid(HeaderError::NotAPool { .. } | HeaderError::Checksum { .. }),
            b: HeaderCopyError::Invalid(HeaderError::NotAPool { .. } | HeaderError::Checksum { .. }),
        }
    )
}

#[test]
fn format_over_garbage_is_atomic() {
    let medium = simulated(&[0xa5; SIZE as usize]);
    let (recording, _) = Recording::of(&medium, || formatted(&medium, "new"));
    assert_eq!(recording.drains(), 4);
    let (mut none, mut whole) = (0, 0);
    recording.cut(seed(1), |left, drains| match Headers::read(left) {
        Ok(headers) => {
            assert!(drains >= 2, "a pool after {drains} drains");
            assert_eq!(headers.current(), &header("new"));
            assert_whole(left, headers.current());
            whole += 1;
        }
        Err(error) => {
            assert!(drains <= 2 && has_no_pool(&error), "after {drains} drains: {error}");
            none += 1;
        }
    });
    assert!(none > 100 && whole > 100, "{none} images without a pool, {whole} with one");
}

#[test]
fn format_over_other_pool_is_atomic() {
    let medium = simulated(&[0; SIZE as usize]);
    // The older pool has been updated often: its headers look newer than those of the new pool.
    let mut headers = formatted(&medium, "old");
    for durability in [Durability::None, Durability::Commit, Durability::Byte] {
        headers.force_durability(&medium, durability).unwrap();
    }
    let (recording, _) = Recording::of(&medium, || formatted(&medium, "new"));
    let (mut old, mut none, mut new) = (0, 0, 0);
    recording.cut(seed(1), |left, drains| match Headers::read(left) {
        Ok(headers) if headers.current().layout.as_str() == "old" => {
            assert_eq!(drains, 0);
            old += 1;
        }
        Ok(_) => {
            assert!(drains >= 2);
            new += 1;
        }
        Err(error) => {
            assert!(has_no_pool(&error), "after {drains} drains: {error}");
            none += 1;
        }
    });
    assert!(old > 0 && none > 0 && new > 0, "{old} {none} {new}");
}

#[test]
fn failed_content_leaves_no_pool() {
    let medium = memory::persistent(SIZE);
    let refused = format(&medium, header("x"), |_, _| Err(PoolError::Exists));
    assert!(matches!(refused, Err(PoolError::Exists)));
    assert!(has_no_pool(&Headers::read(&medium).unwrap_err()));
}

#[test]
fn out_of_range_content_leaves_no_pool() {
    let medium = memory::persistent(SIZE);
    let refused = format(&medium, header("x"), |medium, _| -> Result<(), PoolError> {
        medium.store8(PoolOffset::new(SIZE), 1);
        Ok(())
    });
    assert!(matches!(refused, Err(PoolError::Memory { .. })));
    assert!(has_no_pool(&Headers::read(&medium).unwrap_err()));
}

#[test]
fn grow_is_atomic() {
    // Grow far enough for a second extent. Its table covers garbage.
    let (old_size, new_size) = (SIZE, (32 << 20) + 4 * CHUNK);
    let mut bytes = vec![0; old_size as usize];
    bytes.resize(new_size as usize, 0xa5);
    let medium = simulated(&bytes);
    let mut headers = formatted(&medium, "kv");
    let old = *headers.current();
    let (recording, grown) = Recording::of(&medium, || headers.grow(&medium, new_size));
    grown.unwrap();
    let new = *headers.current();
    assert_eq!((old.geometry.size(), new.geometry.size()), (old_size, new_size));
    assert_eq!((new.geometry.extents().len(), recording.drains()), (2, 3));
    let (mut before, mut after) = (0, 0);
    recording.cut(seed(1), |left, drains| {
        let mut headers = Headers::read(left).unwrap();
        if *headers.current() == old {
            assert!(drains <= 1, "the old size after {drains} drains");
            before += 1;
        } else {
            assert!(drains >= 1, "the new size after {drains} drains");
            assert_eq!(*headers.current(), new);
            let extent = new.geometry.extents()[1];
            for at in (0..extent.table_len).step_by(8) {
                assert_eq!(left.memory().reading(|memory| memory.load8(extent.start.plus(at))).unwrap(), 0);
            }
            after += 1;
        }
        assert_whole(left, headers.current());
        // The next open completes the update that the cut interrupted; a second repair finds no damage.
        headers.complete_update(left).unwrap();
        repair_headers(left).unwrap();
        assert_eq!(check_headers(left), []);
        assert_eq!(repair_headers(left).unwrap(), None);
        assert_eq!(Headers::read(left).unwrap().current(), headers.current());
    });
    assert!(before > 1 && after > 1);
}

#[test]
fn update_with_one_valid_copy_is_atomic() {
    for lost in [HeaderCopy::A, HeaderCopy::B] {
        let medium = simulated(&[0; SIZE as usize]);
        formatted(&medium, "kv");
        let at = lost.at().plus(96);
        medium.memory().store8(at, medium.memory().reading(|memory| memory.load8(at)).unwrap() ^ 1);
        let mut headers = Headers::read(&medium).unwrap();
        let dirty_shutdowns = Some(1);
        let (recording, set) =
            Recording::of(&medium, || headers.set_dirty_shutdowns(&medium, dirty_shutdowns));
        set.unwrap();
        recording.cut(seed(1), |left, drains| {
            let left = Headers::read(left)
                .unwrap_or_else(|error| panic!("copy {lost} lost, cut after {drains} drains: {error}"));
            assert!([None, dirty_shutdowns].contains(&left.current().dirty_shutdowns));
        });
    }
}

#[test]
fn failed_drain_poisons_handle() {
    let medium = failing(4);
    let mut headers = formatted(&medium, "kv");
    let error = headers.force_durability(&medium, Durability::None).unwrap_err();
    assert!(matches!(error, PoolError::Drain { error } if error.errno == 5), "{error}");
    let error = headers.force_durability(&medium, Durability::None).unwrap_err();
    assert!(matches!(error, PoolError::Poisoned), "{error}");
    assert_eq!(medium.counts().drains, 5);
}

#[test]
fn failed_sync_in_format_leaves_no_pool() {
    for refused in 0..3 {
        let medium = failing(refused);
        let error = format(&medium, header("kv"), write_content).unwrap_err();
        assert!(matches!(error, PoolError::Drain { .. }));
        assert_eq!(medium.counts().drains, refused + 1);
        if refused < 2 {
            assert!(has_no_pool(&Headers::read(&medium).unwrap_err()));
        }
    }
}
