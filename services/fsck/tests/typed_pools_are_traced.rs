//! A check of a typed pool finds leaks, and pointers that lead nowhere or to an object with another owner.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_fsck::{TypedLayout, check_pool};
use lode_heap::check::{Report, Severity};
use lode_heap::{Access, CreateOptions, Durability, HeapError, LayoutName, OpenOptions};
use lode_heap::{PBox, PCell, PString, PVec, Persist, Pool, TypedPool};
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use lode_pool::UncheckedPool;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

lode_heap::brand!(Town);

#[derive(Persist)]
#[persist(brand = Town)]
#[repr(C)]
struct House {
    number: PCell<u64, Town>,
    next: PBox<House, Town>,
    names: PString<Town>,
    years: PVec<u32, Town>,
}

const LAYOUT: TypedLayout<House, Town> = TypedLayout::new("town");

fn house(number: u64) -> House {
    House { number: PCell::new(number), next: PBox::null(), names: PString::new(), years: PVec::new() }
}

/// Makes a pool with a chain of three houses, each with a string and a vector: nine objects.
fn town() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let layout = LayoutName::new("town").unwrap();
    let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(1 << 20, layout) };
    let pool = TypedPool::<Town>::create(&path, &options).unwrap();
    let root = pool.root_or_init(|_| Ok::<_, HeapError>(house(1))).unwrap();
    pool.run(|tx| {
        root.next.set(tx, tx.alloc(house(2))?)?;
        let second = root.next.get(tx)?.unwrap();
        second.next.set(tx, tx.alloc(house(3))?)?;
        for house in [root, second, second.next.get(tx)?.unwrap()] {
            house.names.set(tx, "a name that takes some room")?;
            house.years.push(tx, 1900)?;
        }
        Ok::<_, HeapError>(())
    })
    .unwrap();
    pool.close().unwrap();
    (folder, path)
}

fn view(path: &Path) -> Arc<UncheckedPool> {
    Arc::new(lode_pool::map_unchecked(path, &OpenOptions::new(Access::ReadOnly)).unwrap())
}

fn check(view: Arc<UncheckedPool>) -> Report {
    check_pool(view, &[&LAYOUT])
}

fn root_of(view: &UncheckedPool) -> PoolOffset {
    let geometry = *lode_pool::Headers::read(view).unwrap().geometry();
    lode_layout::decode_root(
        view.memory().reading(|memory| memory.load8(geometry.extents()[0].start)).unwrap(),
    )
    .unwrap()
}

/// Offset of the pointer `next` of the root.
fn next_of_root(view: &UncheckedPool) -> PoolOffset {
    root_of(view).plus(std::mem::offset_of!(House, next) as u64)
}

#[test]
fn sound_pool_has_no_leak() {
    let (_folder, path) = town();
    let report = check(view(&path));
    assert!(report.is_clean() && report.traced, "{report}");
    assert_eq!((report.counts.reached, report.counts.objects), (9, 9));
}

#[test]
fn object_without_owner_is_a_leak() {
    let (_folder, path) = town();
    let options = OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(Access::ReadWrite) };
    let pool = Pool::open(&path, &options).unwrap();
    let at = pool.heap().run(|tx| tx.alloc_zeroed(100, 8, 1)).unwrap();
    pool.close().unwrap();
    let report = check(view(&path));
    assert_eq!(report.worst(), Some(Severity::Damage), "{report}");
    assert_eq!(report.findings.iter().map(|finding| finding.at).collect::<Vec<_>>(), [at]);
}

#[test]
fn misdirected_pointer_is_corruption() {
    let (_folder, path) = town();
    let sound = view(&path);
    let second = sound.memory().reading(|memory| memory.load8(next_of_root(&sound))).unwrap();
    // To the root itself; between two objects; outside of the pool.
    for (target, reached) in [(root_of(&sound).get(), 4), (second + 8, 4), (1 << 40, 4)] {
        let view = view(&path);
        view.store8(next_of_root(&view), target);
        let report = check(Arc::clone(&view));
        assert_eq!(report.counts.reached, reached, "{report}");
        assert!(report.findings[0].what.contains("pointer"), "{report}");
        // The other six are leaks now.
        assert_eq!(report.findings.len(), 7, "{report}");
    }
}

#[test]
fn root_of_other_type_is_not_traced() {
    let (_folder, path) = town();
    let other = TypedLayout::<u64, Town>::new("town");
    let report = check_pool(view(&path), &[&other]);
    assert!(!report.traced, "{report}");
    assert_eq!(report.worst(), Some(Severity::Damage));
}

#[test]
fn other_layout_is_not_traced() {
    let (_folder, path) = town();
    let report = check_pool(view(&path), &[&TypedLayout::<House, Town>::new("village")]);
    assert!(report.is_clean() && !report.traced, "{report}");
}
