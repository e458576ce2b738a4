//! Memory whose waiting is loom's.

use lode_pmem::{Durability, Event, Mapping};

/// A medium of anonymous memory at durability `line`, on which a thread that waits lets others run.
#[derive(Debug)]
pub(super) struct Yielding(Mapping);

impl Yielding {
    pub(super) fn new(len: u64) -> Yielding {
        Yielding(Mapping::options().durability(Durability::Line).reserve(len).map_anonymous(len).unwrap())
    }
}

impl lode_pmem::Layer for Yielding {
    type Inner = Mapping;

    fn inner(&self) -> &Mapping {
        &self.0
    }
    fn relax(&self, _: u32) {
        loom::thread::yield_now();
    }
    fn wait_while(&self, _: &Event, blocked: &mut dyn FnMut() -> bool) {
        while blocked() {
            loom::thread::yield_now();
        }
    }
}
