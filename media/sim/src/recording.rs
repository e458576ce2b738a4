//! One recorded call, whose power cuts a test visits image by image.

use crate::explore::{dirty_units, load_image};
use crate::image::Image;
use crate::model::Model;
use crate::sampling::{Limits, visit_states};
use crate::trace::MediumEvent;
use crate::{Machine, SimMedium};
use lode_layout::{PoolOffset, WORD};
use lode_pmem::Medium;
use std::ops::ControlFlow;

/// Number of images at each cut: all of them if they are few. Otherwise those in which one line differs from all
/// others, for up to `singles` lines, and `samples` random ones.
const LIMITS: Limits = Limits { exhaustive: 1 << 10, samples: 128, singles: 130 };

/// The calls of a medium during one call of an engine.
///
/// [`explore`](crate::explore()) compares what recovery finds with a model. A recording suits a test that examines each
/// image itself, and that has to know how many drains the engine had completed.
#[derive(Debug)]
pub struct Recording {
    machine: Machine,
    start: Vec<u64>,
    events: Vec<MediumEvent>,
}

impl Recording {
    /// Records `call`, which uses `medium`. Returns the result of the call, too. The content of the medium before the
    /// call counts as durable.
    pub fn of<T>(medium: &SimMedium, call: impl FnOnce() -> T) -> (Recording, T) {
        let words = medium.memory().len() / WORD;
        let start = medium
            .memory()
            .reading(|memory| (0..words).map(|word| memory.load8(PoolOffset::new(word * WORD))).collect());
        let start = match start {
            Ok(start) => start,
            Err(fault) => panic!("a recording begins with memory that is there: {fault}"),
        };
        medium.record(true);
        let result = call();
        medium.record(false);
        (Recording { machine: medium.machine(), start, events: medium.trace().take() }, result)
    }

    /// Returns the number of drains, including those inside of log writes.
    pub fn drains(&self) -> usize {
        self.events.iter().filter(|event| is_drain(event)).count()
    }

    /// Cuts the power before each drain and after the last event. At each cut it calls `visit` with media that hold
    /// images which the cut may leave, and with the number of drains before it. Stores of `visit` are undone. `seed`
    /// chooses among the images where there are many.
    ///
    /// # Panics
    /// Panics if there is no memory for an image.
    pub fn cut(&self, seed: u64, mut visit: impl FnMut(&SimMedium, usize)) {
        let len = self.start.len() as u64 * WORD;
        let mut image = match Image::new(len, self.machine) {
            Ok(image) => image,
            Err(error) => panic!("no memory for a medium of {len} bytes: {error}"),
        };
        image.load(&self.start);
        let mut model = Model::new(self.machine, &self.start);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut drains = 0;
        for event in &self.events {
            if is_drain(event) {
                cut_here(&mut image, &mut model, &mut rng, |medium| visit(medium, drains));
                drains += 1;
            }
            model.apply(*event);
        }
        cut_here(&mut image, &mut model, &mut rng, |medium| visit(medium, drains));
    }
}

/// Visits images that a power cut may leave now.
fn cut_here(
    image: &mut Image,
    model: &mut Model,
    rng: &mut fastrand::Rng,
    mut visit: impl FnMut(&SimMedium),
) {
    let (units, _) = dirty_units(model);
    let _: ControlFlow<()> = visit_states(&units, LIMITS, rng, |state| {
        load_image(image, model, state);
        image.with_medium(&mut visit);
        ControlFlow::Continue(())
    });
}

fn is_drain(event: &MediumEvent) -> bool {
    matches!(event, MediumEvent::Drain { .. } | MediumEvent::Synced { .. } | MediumEvent::SyncFailed { .. })
}
