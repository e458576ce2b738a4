//! A repair that was killed is finished by the next one, with the same keys; until then a dirty shutdown is not
//! accepted.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::image::{Image, LOG_EPOCH, contents};
use crate::store_image::{self, StoreImage};
use lode_fsck::{Layout, repair_pool};
use lode_index::StoreLayout;
use lode_kv::LAYOUT;
use lode_layout::PoolOffset;
use lode_pmem::{Mapping, Medium};
use lode_pool::{DirtyShutdown, Headers};
use lode_testing::{KilledMedium, memory};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The dirty shutdowns of the modules when the pool was last opened. There was one more since.
pub(crate) const SHUTDOWNS: u64 = 4;

fn dirty_shutdowns(medium: &Arc<Mapping>) -> Option<u64> {
    Headers::read(&**medium).unwrap().current().dirty_shutdowns
}

/// A pool with damage of every kind: a header copy, a slot copy, a node, a leaf, a bitmap.
fn damaged() -> Image {
    let mut image = Image::make(512 << 10, 120, false);
    let (_, objects) = image.open().unwrap();
    let medium = image.medium();
    Headers::read(&*medium).unwrap().set_dirty_shutdowns(&*medium, Some(SHUTDOWNS)).unwrap();
    medium.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut image.bytes)).unwrap();
    let [first, middle, last] =
        [1, objects.len() / 2, objects.len() - 1].map(|index| objects[index].at.get());
    let chunk = image.header().geometry.extents()[0].start.get() + 2 * lode_layout::CHUNK;
    for at in [100, 0x2010, first, middle + 8, last + 3, chunk + 0x41] {
        image.bytes[at as usize] ^= 0x55;
    }
    image
}

/// Kills a repair of what `medium` returns before each of its stores, and repeats it. `verify` looks at the outcome.
pub(crate) fn kill_at_each_store<L: Layout<KilledMedium>>(
    medium: impl Fn() -> Arc<Mapping>,
    layout: &L,
    verify: impl Fn(&Arc<Mapping>, u64),
) {
    let (mut stops, mut accepted) = (0, 0);
    for stores in 0.. {
        let inner = medium();
        // The kills are panics.
        std::panic::set_hook(Box::new(|_| ()));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            repair_pool(&KilledMedium::on(&inner, stores, Some(SHUTDOWNS + 1)), LOG_EPOCH, &[layout])
        }));
        let _ = std::panic::take_hook();
        if ended.is_ok() {
            break;
        }
        stops += 1;
        let unaccepted = dirty_shutdowns(&inner).is_some();
        let again = KilledMedium::on(&inner, u64::MAX, Some(SHUTDOWNS + 1));
        let repair = repair_pool(&again, [LOG_EPOCH[0] + 10, LOG_EPOCH[1] + 9], &[layout]).unwrap();
        let shutdown = DirtyShutdown { was: SHUTDOWNS, now: SHUTDOWNS + 1 };
        assert_eq!(repair.dirty_shutdown, unaccepted.then_some(shutdown), "killed before store {stores}");
        assert_eq!(dirty_shutdowns(&inner), None);
        accepted += u64::from(!unaccepted);
        assert!(repair.after.is_clean(), "killed before store {stores}: {}", repair.after);
        verify(&inner, stores);
    }
    println!("{stops} places to stop");
    assert!(stops > 30);
    // Only before the last store, which writes the second copy of the header.
    assert_eq!(accepted, 1);
}

#[test]
fn repair_after_kill_at_each_store() {
    let image = damaged();
    let whole = image.medium();
    repair_pool(&whole, LOG_EPOCH, &[&LAYOUT]).unwrap();
    let (want, _) = contents(&whole).unwrap();
    assert!(want.len() + 5 > image.content.len());
    kill_at_each_store(
        || image.medium(),
        &LAYOUT,
        |inner, stores| assert!(contents(inner).unwrap().0 == want, "killed before store {stores}"),
    );
}

/// The trees are as an undisturbed repair leaves them: one without a name, and one whose keys come back.
#[test]
fn store_repair_after_kill_at_each_store() {
    kill_store_repairs(&["jobs"], &["lost+found/1"]);
}

/// As above, for keys whose tree is unknown.
#[test]
fn store_repair_with_unplaced_keys_after_kill_at_each_store() {
    kill_store_repairs(&["jobs", "history"], &["lost+found", "lost+found.2", "lost+found/1"]);
}

/// Kills repairs of a store in which a name and the slots of some root objects are damaged.
fn kill_store_repairs(trees: &[&str], found: &[&str]) {
    let mut image = StoreImage::make(512 << 10, 14, true);
    let medium = image.medium();
    Headers::read(&*medium).unwrap().set_dirty_shutdowns(&*medium, Some(SHUTDOWNS)).unwrap();
    image.bytes = memory::bytes(&medium);
    trees.iter().for_each(|name| image.damage_top(name));
    image.damage_name("accounts");
    let whole = image.medium();
    let repair = repair_pool(&whole, LOG_EPOCH, &[&StoreLayout]).unwrap();
    assert!(repair.reinserted > 0, "{repair:?}");
    let want = store_image::contents(&whole).unwrap();
    assert!(
        want.keys().map(String::as_str).filter(|name| name.starts_with("lost")).eq(found.iter().copied())
    );
    kill_at_each_store(
        || image.medium(),
        &StoreLayout,
        |inner, stores| {
            let found = store_image::contents(inner).unwrap();
            assert_eq!(found, want, "killed before store {stores}");
        },
    );
}
