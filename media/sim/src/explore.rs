//! The explorer: runs a workload, cuts the power, recovers, and compares.

use crate::Subject;
use crate::history::{HistoryPrefix, Outcome};
use crate::image::{Image, RecoveryFailure};
use crate::model::{Model, THREADS_MAX};
use crate::report::{Cut, Failure, Replay, Report, Violation};
use crate::run::{Run, run};
use crate::sampling::{self, DirtyUnit, Limits};
use crate::schedule::RunAbort;
use crate::seen_images::SeenImages;
use crate::setup::Setup;
use crate::trace::MediumEvent;
use std::fmt::{Debug, Write};
use std::mem;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Instant;

/// Least number of crash images for one run, if the setup has as many.
const RUN_IMAGES_MIN: u64 = 512;
/// Least number of runs over which the images are spread.
const RUNS_MIN: u64 = 64;
/// Number of crash points by which the number of a run's images is estimated.
const ESTIMATED_POINTS: usize = 256;
/// Number of consecutive runs without a new image after which the exploration ends.
const STALE_RUNS_MAX: u32 = 100;
/// The same for an attempt to find a violation in a shorter workload.
const SHRINK_STALE_RUNS_MAX: u32 = 10;
/// Number of images for each attempt to find a violation in a shorter workload.
const SHRINK_IMAGES: u64 = 1000;
/// One in this many crash points is examined closely, if a run has more images than its share. Few images of the other
/// points are tried, so that many points are visited.
const CLOSE_ONE_IN: u64 = 12;
/// Limits for these other crash points.
const QUICK_LIMITS: Limits = Limits { exhaustive: 16, samples: 6, singles: 2 };
/// Factor by which crash points directly before a drain are visited more often: all that the drain makes durable is
/// still pending there.
const BEFORE_DRAIN: f64 = 4.0;
/// Number of units to try alone at a crash point that is examined closely.
const SINGLES: usize = 12;
/// Limits for each crash point inside of a recovery.
const NESTED: Limits = Limits { exhaustive: 16, samples: 4, singles: 12 };
/// Factor by which a recovery is recorded more often after a kill than after a power cut: there is one kill a crash point.
const KILLS_MORE_OFTEN: u64 = 32;
/// Number of images to try of one recovery.
const NESTED_MAX: u64 = 64;

/// Explores the states that power cuts leave of the workload of `subject`, until so many images are tried or data is lost.
///
/// # Panics
/// Panics if `setup.threads` is not 1 to 3, or if there is no memory for the media.
pub fn explore<S: Subject>(subject: &S, setup: &Setup) -> Report {
    let mut report = Search::new(subject, setup).explore(STALE_RUNS_MAX);
    let Some(violation) = report.violation.take() else { return report };
    // Each attempt to shorten a run that hangs would hang as long.
    if !setup.shrink || matches!(violation.failure, Failure::Stopped(RunAbort::Hang { .. })) {
        report.violation = Some(violation);
        return report;
    }
    let shorter = (0..).map(|power| 1u64 << power).take_while(|operations| *operations < setup.operations);
    let shrunk = shorter.take(6).find_map(|operations| {
        let (images, seed) = (SHRINK_IMAGES, violation.replay.seed);
        Search::new(subject, &Setup { operations, seed, images, ..*setup })
            .explore(SHRINK_STALE_RUNS_MAX)
            .violation
    });
    report.violation = shrunk.or(Some(violation));
    report
}

/// Makes one image of an exploration again, and recovers from it. `setup` is that of the exploration.
///
/// # Errors
/// Fails with the same violation as in the exploration.
///
/// # Panics
/// As [`explore`]. Panics, too, if the run has no image that `replay` names, because `replay` is of another setup or
/// version.
pub fn replay<S: Subject>(subject: &S, setup: &Setup, replay: &Replay) -> Result<(), Failure> {
    let run = run(subject, setup, replay.seed, replay.operations)?;
    let mut search = Search::new(subject, setup);
    let mut history = HistoryPrefix::start();
    if let Some(point) = replay.killed_at {
        history.advance(&run.entries, point);
        return search.replay_kill(&run, &history, point, replay.cuts.first());
    }
    let Some((first, inside)) = replay.cuts.split_first() else { return Ok(()) };
    history.advance(&run.entries, first.point);
    let legal = subject.legal(&history);
    search.main.load(&run.start);
    load_cut(&mut search.main, Model::new(setup.machine, &run.start), &run.events, first);
    let Some(second) = inside.first() else {
        return search.main.check(subject, &legal).map_err(Failure::PowerCut);
    };
    let recovery = search.main.record(subject).map_err(Failure::PowerCut)?;
    let start = search.main.words().to_vec();
    search.nested.load(&start);
    load_cut(&mut search.nested, Model::new(setup.machine, &start), &recovery, second);
    search.nested.check(subject, &legal).map_err(Failure::PowerCut)
}

/// Lays the image of a cut in `events`, which begin in the state of `model`.
fn load_cut(image: &mut Image, mut model: Model, events: &[MediumEvent], cut: &Cut) {
    events[..cut.point].iter().for_each(|event| model.apply(*event));
    model.enumerate();
    let version = |unit: u32| cut.image.iter().find(|pair| pair.0 == unit).map_or(0, |pair| pair.1);
    let state: Vec<u16> = model.dirty().iter().map(|unit| version(*unit)).collect();
    load_image(image, &mut model, &state);
}

/// Returns the state in which every unit holds all of its stores: what the end of the process leaves.
fn newest(units: &[DirtyUnit]) -> Vec<u16> {
    units.iter().map(|unit| unit.newest).collect()
}

/// Lays the image that `state` chooses, one version for each dirty unit.
pub(crate) fn load_image(image: &mut Image, model: &mut Model, state: &[u16]) {
    for unit in model.take_cleaned() {
        image.store_unit(unit, model.base(unit));
    }
    for (unit, version) in model.dirty().iter().zip(state) {
        image.store_unit(*unit, model.versions(*unit).words(usize::from(*version)));
    }
}

/// Returns the options of each dirty unit, and true if every possible content is listed.
pub(crate) fn dirty_units(model: &mut Model) -> (Vec<DirtyUnit>, bool) {
    model.enumerate();
    let option = |unit: &u32| {
        let versions = model.versions(*unit);
        let (count, newest) = (versions.len() as u16, versions.newest() as u16);
        DirtyUnit { count, newest, is_undrained: model.is_undrained(*unit), writers: model.writers(*unit) }
    };
    let is_whole = !model.dirty().iter().any(|unit| model.versions(*unit).is_sample());
    (model.dirty().iter().map(option).collect(), is_whole)
}

/// Returns true if the crash point after `event` can have images that the one before it did not have.
fn changes_images(event: MediumEvent) -> bool {
    !matches!(event, MediumEvent::Flush { .. } | MediumEvent::Log { last: false, .. })
}

enum End {
    /// The images are spent.
    Spent,
    /// The images of the recorded recovery have reached their limit.
    Enough,
    /// Data was lost.
    Found(Box<Violation>),
}

/// The crash point, with all that the checks and the report need to know.
struct CrashPoint<'a, S: Subject> {
    seed: u64,
    operations: u64,
    point: usize,
    history: &'a HistoryPrefix<S::Operation>,
    legal: &'a S::Legal,
    legal_after_kill: Option<&'a S::Legal>,
}

struct Search<'s, S: Subject> {
    subject: &'s S,
    setup: &'s Setup,
    report: Report,
    seen: SeenImages,
    main: Image,
    nested: Image,
    /// The models of the last run and recovery: others of the same size cost more than to use these again.
    model: Model,
    recovery_model: Model,
    started: Instant,
}

impl<'s, S: Subject> Search<'s, S> {
    fn new(subject: &'s S, setup: &'s Setup) -> Search<'s, S> {
        assert!(
            (1..=THREADS_MAX).contains(&setup.threads),
            "{} logical threads are not 1 to 3",
            setup.threads
        );
        let image = || match Image::new(subject.size(), setup.machine) {
            Ok(image) => image,
            Err(error) => panic!("no memory for a medium of {} bytes: {error}", subject.size()),
        };
        Search {
            subject,
            setup,
            report: Report::default(),
            seen: SeenImages::default(),
            main: image(),
            nested: image(),
            model: Model::new(setup.machine, &[]),
            recovery_model: Model::new(setup.machine, &[]),
            started: Instant::now(),
        }
    }

    fn explore(mut self, stale_runs_max: u32) -> Report {
        let mut stale_runs = 0;
        // A workload with few images would otherwise run for ever, without new ones.
        while stale_runs < stale_runs_max {
            let before = self.seen.images();
            let seed = self.setup.seed.wrapping_add(self.report.runs);
            self.report.runs += 1;
            let operations = self.setup.operations;
            let end = match run(self.subject, self.setup, seed, operations) {
                Ok(run) => self.explore_run(seed, &run),
                Err(failure) => {
                    let replay = Replay { seed, operations, killed_at: None, cuts: Vec::new() };
                    Break(End::Found(Box::new(Violation { replay, failure, history: String::new() })))
                }
            };
            match end {
                Continue(()) | Break(End::Enough) => (),
                Break(End::Spent) => break,
                Break(End::Found(violation)) => {
                    self.report.violation = Some(*violation);
                    break;
                }
            }
            stale_runs = if self.seen.images() == before { stale_runs + 1 } else { 0 };
        }
        self.report.images = self.seen.images();
        self.report.seconds = self.started.elapsed().as_secs_f64();
        self.report
    }

    fn limits(&self) -> Limits {
        Limits { exhaustive: self.setup.exhaustive, samples: self.setup.samples, singles: SINGLES }
    }

    /// Returns the share of a run's crash points to visit, so that the images last for several runs, and true if all
    /// of them are examined closely.
    fn share(&self, model: &mut Model, run: &Run<S::Operation>) -> (f64, bool) {
        let images = self.setup.images;
        let target = (images / RUNS_MIN).max(RUN_IMAGES_MIN.min(images));
        model.reset(&run.start);
        let points = run.events.iter().filter(|event| changes_images(**event)).count();
        let step = (points / ESTIMATED_POINTS).max(1);
        let (mut close, mut mixed, mut point) = (1.0, 1.0, 0);
        for event in &run.events {
            model.apply(*event);
            point += usize::from(changes_images(*event));
            if changes_images(*event) && point.is_multiple_of(step) {
                let units = dirty_units(model).0;
                let (closely, quick) = [self.limits(), QUICK_LIMITS]
                    .map(|limits| sampling::visits(&units, limits) as f64)
                    .into();
                close += closely;
                mixed += quick + (closely - quick) / CLOSE_ONE_IN as f64;
            }
        }
        let [close, mixed] = [close, mixed].map(|images| target as f64 / images / step as f64);
        if close >= 1.0 { (close, true) } else { (mixed, false) }
    }

    fn explore_run(&mut self, seed: u64, run: &Run<S::Operation>) -> ControlFlow<End> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut model = mem::replace(&mut self.model, Model::new(self.setup.machine, &[]));
        let (share, is_close) = self.share(&mut model, run);
        model.reset(&run.start);
        self.main.load(&run.start);
        let mut history = HistoryPrefix::start();
        let mut legal = self.subject.legal(&history);
        let mut legal_after_kill = self.subject.legal_after_kill(&history);
        let mut legal_at = history.entries();
        self.seen.next_round();
        let mut is_fresh = true;
        for point in 0..=run.events.len() {
            if let Some(event) = point.checked_sub(1).map(|last| run.events[last]) {
                model.apply(event);
                is_fresh |= changes_images(event);
            }
            is_fresh |= history.advance(&run.entries, point);
            // The end is always examined: after a failed sync, few events follow.
            let is_end = point == run.events.len();
            let is_before_drain =
                matches!(run.events.get(point), Some(MediumEvent::Drain { .. } | MediumEvent::Synced { .. }));
            let share = if is_before_drain { BEFORE_DRAIN * share } else { share };
            if !is_fresh || (rng.f64() >= share && !is_end) {
                continue;
            }
            let is_close = is_close || is_end || rng.u64(..CLOSE_ONE_IN) == 0;
            let limits = if is_close { self.limits() } else { QUICK_LIMITS };
            is_fresh = false;
            if history.entries() != legal_at {
                legal = self.subject.legal(&history);
                legal_after_kill = self.subject.legal_after_kill(&history);
                legal_at = history.entries();
                self.seen.next_round();
            }
            let operations = self.setup.operations;
            let crash_point = CrashPoint::<S> {
                seed,
                operations,
                point,
                history: &history,
                legal: &legal,
                legal_after_kill: legal_after_kill.as_ref(),
            };
            self.cut(&mut model, &crash_point, limits, &mut rng)?;
        }
        self.model = model;
        Continue(())
    }

    /// Cuts the power at a crash point of the run.
    fn cut(
        &mut self,
        model: &mut Model,
        crash_point: &CrashPoint<'_, S>,
        limits: Limits,
        rng: &mut fastrand::Rng,
    ) -> ControlFlow<End> {
        let (units, is_whole) = dirty_units(model);
        self.report.crash_points += 1;
        self.report.exhausted_points += u64::from(is_whole && sampling::is_exhaustive(&units, limits));
        self.report.states_log2_max = self.report.states_log2_max.max(sampling::states_log2(&units));
        if let Some(legal) = crash_point.legal_after_kill {
            self.kill(model, &newest(&units), crash_point, legal)?;
        }
        sampling::visit_states(&units, limits, rng, |state| {
            let hash = hash(model, state);
            if !self.seen.is_new(hash) {
                return Continue(());
            }
            self.spend()?;
            load_image(&mut self.main, model, state);
            if let Err(failure) = self.main.check(self.subject, crash_point.legal) {
                let (state, failure) =
                    shrink(&mut self.main, model, self.subject, crash_point.legal, state, failure);
                let cuts = vec![cut_of(model, crash_point.point, &state)];
                return Break(found(crash_point, None, cuts, Failure::PowerCut(failure)));
            }
            let one_in = self.setup.nested_one_in;
            if one_in != 0 && ((hash >> 64) as u64).is_multiple_of(one_in) {
                return self.cut_inside(crash_point, || cut_of(model, crash_point.point, state));
            }
            Continue(())
        })
    }

    /// Kills the process at a crash point of the run: all of its stores are in memory, which stays.
    fn kill(
        &mut self,
        model: &mut Model,
        state: &[u16],
        crash_point: &CrashPoint<'_, S>,
        legal: &S::Legal,
    ) -> ControlFlow<End> {
        self.spend()?;
        load_image(&mut self.main, model, state);
        let killed_at = Some(crash_point.point);
        if let Err(failure) = self.main.check(self.subject, legal) {
            return Break(found(crash_point, killed_at, Vec::new(), Failure::Kill(failure)));
        }
        let one_in = self.setup.nested_one_in / KILLS_MORE_OFTEN;
        if self.setup.nested_one_in == 0 || !((hash(model, state) >> 64) as u64).is_multiple_of(one_in.max(1))
        {
            return Continue(());
        }
        let events = match self.main.record(self.subject) {
            Ok(events) => events,
            Err(failure) => return Break(found(crash_point, killed_at, Vec::new(), Failure::Kill(failure))),
        };
        let mut killed = model.clone();
        killed.end_threads();
        self.nested.load(self.main.words());
        self.cut_recovery(&mut killed.clone(), &events, crash_point, killed_at, Vec::new)?;
        self.nested.load(self.main.words());
        self.cut_after_recovery(killed, &events, crash_point, legal)
    }

    /// Cuts the power when the recovery after a kill has returned: what the killed process promised is durable.
    fn cut_after_recovery(
        &mut self,
        mut model: Model,
        events: &[MediumEvent],
        crash_point: &CrashPoint<'_, S>,
        legal: &S::Legal,
    ) -> ControlFlow<End> {
        events.iter().for_each(|event| model.apply(*event));
        let mut rng = fastrand::Rng::with_seed(crash_point.seed ^ crash_point.point as u64);
        let (units, _) = dirty_units(&mut model);
        sampling::visit_states(&units, NESTED, &mut rng, |state| {
            self.spend()?;
            load_image(&mut self.nested, &mut model, state);
            let Err(failure) = self.nested.check(self.subject, legal) else { return Continue(()) };
            let cuts = vec![cut_of(&model, events.len(), state)];
            Break(found(crash_point, Some(crash_point.point), cuts, Failure::Kill(failure)))
        })
    }

    /// Makes the image of a kill again, or of a power cut inside of the recovery from it.
    fn replay_kill(
        &mut self,
        run: &Run<S::Operation>,
        history: &HistoryPrefix<S::Operation>,
        point: usize,
        inside: Option<&Cut>,
    ) -> Result<(), Failure> {
        let mut model = Model::new(self.setup.machine, &run.start);
        self.main.load(&run.start);
        run.events[..point].iter().for_each(|event| model.apply(*event));
        let state = newest(&dirty_units(&mut model).0);
        load_image(&mut self.main, &mut model, &state);
        let Some(inside) = inside else {
            let legal = self.subject.legal_after_kill(history);
            return legal
                .map_or(Ok(()), |legal| self.main.check(self.subject, &legal))
                .map_err(Failure::Kill);
        };
        let events = self.main.record(self.subject).map_err(Failure::Kill)?;
        model.end_threads();
        self.nested.load(self.main.words());
        load_cut(&mut self.nested, model, &events, inside);
        self.nested.check(self.subject, &self.subject.legal(history)).map_err(Failure::PowerCut)?;
        // After the whole recovery, what the killed process promised is durable.
        let promised = self.subject.legal_after_kill(history).filter(|_| inside.point == events.len());
        promised.map_or(Ok(()), |legal| self.nested.check(self.subject, &legal)).map_err(Failure::Kill)
    }

    /// Cuts the power inside of the recovery of the image that was just laid and checked.
    fn cut_inside(&mut self, crash_point: &CrashPoint<'_, S>, outer: impl Fn() -> Cut) -> ControlFlow<End> {
        let events = match self.main.record(self.subject) {
            Ok(events) => events,
            Err(failure) => {
                return Break(found(crash_point, None, vec![outer()], Failure::PowerCut(failure)));
            }
        };
        let start = self.main.words().to_vec();
        self.nested.load(&start);
        let mut model = mem::replace(&mut self.recovery_model, Model::new(self.setup.machine, &[]));
        model.reset(&start);
        let end = self.cut_recovery(&mut model, &events, crash_point, None, || vec![outer()]);
        self.recovery_model = model;
        end
    }

    /// Cuts the power inside of a recovery with these events, which begins in the state of `model`. `nested` holds its image.
    fn cut_recovery(
        &mut self,
        model: &mut Model,
        events: &[MediumEvent],
        crash_point: &CrashPoint<'_, S>,
        killed_at: Option<usize>,
        outer: impl Fn() -> Vec<Cut>,
    ) -> ControlFlow<End> {
        let mut rng = fastrand::Rng::with_seed(crash_point.seed ^ crash_point.point as u64);
        let mut left = NESTED_MAX;
        let share = NESTED_MAX as f64 / (8 * events.len().max(1)) as f64;
        for (last, event) in events.iter().enumerate() {
            model.apply(*event);
            if !changes_images(*event) || rng.f64() >= share {
                continue;
            }
            let (units, _) = dirty_units(model);
            self.report.crash_points += 1;
            let end = sampling::visit_states(&units, NESTED, &mut rng, |state| {
                if !self.seen.is_new(hash(model, state)) {
                    return Continue(());
                }
                self.spend()?;
                self.report.nested_images += 1;
                load_image(&mut self.nested, model, state);
                if let Err(failure) = self.nested.check(self.subject, crash_point.legal) {
                    let image = &mut self.nested;
                    let (state, failure) =
                        shrink(image, model, self.subject, crash_point.legal, state, failure);
                    let mut cuts = outer();
                    cuts.push(cut_of(model, last + 1, &state));
                    return Break(found(crash_point, killed_at, cuts, Failure::PowerCut(failure)));
                }
                left -= 1;
                if left == 0 { Break(End::Enough) } else { Continue(()) }
            });
            match end {
                Break(End::Enough) => return Continue(()),
                end => end?,
            }
        }
        Continue(())
    }

    /// Counts a check, unless the images are spent.
    fn spend(&mut self) -> ControlFlow<End> {
        self.report.checks += 1;
        if self.seen.images() > self.setup.images { Break(End::Spent) } else { Continue(()) }
    }
}

fn hash(model: &Model, state: &[u16]) -> u128 {
    model.dirty().iter().zip(state).fold(model.hash(), |sum, (unit, version)| {
        let hash = model.versions(*unit).hash(usize::from(*version));
        sum.wrapping_sub(model.base_hash(*unit)).wrapping_add(hash)
    })
}

/// Puts as many units as possible back to their oldest content, as long as the recovery still fails.
fn shrink<S: Subject>(
    image: &mut Image,
    model: &mut Model,
    subject: &S,
    legal: &S::Legal,
    state: &[u16],
    mut failure: RecoveryFailure,
) -> (Vec<u16>, RecoveryFailure) {
    let mut state = state.to_vec();
    for unit in 0..state.len() {
        let version = mem::replace(&mut state[unit], 0);
        if version == 0 {
            continue;
        }
        load_image(image, model, &state);
        match image.check(subject, legal) {
            Err(smaller) => failure = smaller,
            Ok(()) => state[unit] = version,
        }
    }
    (state, failure)
}

fn cut_of(model: &Model, point: usize, state: &[u16]) -> Cut {
    let pairs = model.dirty().iter().copied().zip(state.iter().copied());
    Cut { point, image: pairs.filter(|pair| pair.1 != 0).collect() }
}

fn found<S: Subject>(
    crash_point: &CrashPoint<'_, S>,
    killed_at: Option<usize>,
    cuts: Vec<Cut>,
    failure: Failure,
) -> End {
    let replay = Replay { seed: crash_point.seed, operations: crash_point.operations, killed_at, cuts };
    End::Found(Box::new(Violation { replay, failure, history: describe_history(crash_point.history) }))
}

/// Returns the operations that ended last, and those in flight.
pub(crate) fn describe_history<T: Clone + Debug>(history: &HistoryPrefix<T>) -> String {
    let mut ended: Vec<_> =
        history.operations().iter().filter(|operation| operation.ended.is_some()).collect();
    ended.sort_by_key(|operation| operation.ended);
    let last = &ended[ended.len().saturating_sub(4)..];
    let in_flight = history.operations().iter().filter(|operation| operation.ended.is_none());
    let mut text = format!("{} operations had ended; the last ones and those in flight:", ended.len());
    for operation in last.iter().copied().chain(in_flight) {
        let outcome = match operation.outcome {
            Outcome::InFlight => "in flight",
            Outcome::Returned => "returned",
            Outcome::InDoubt => "in doubt",
            Outcome::Refused => "refused",
        };
        // Writing to a string does not fail.
        let _ = write!(text, "\n  thread {} {outcome}: {:?}", operation.thread, operation.what);
    }
    text
}
