//! The results of an exploration.

use crate::image::RecoveryFailure;
use crate::schedule::RunAbort;
use lode_layout::PoolOffset;
use std::fmt;
use std::str::FromStr;

/// The name of an image of a run, by which it can be made again.
///
/// Written as `seed.operations@point:unit=version,...`, with a second `/point:...` for a power cut inside of
/// the recovery of the first image; or as `seed.operations!point`, with `@point:...` for a power cut inside of the recovery
/// after a kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The seed of the run.
    pub seed: u64,
    /// Number of operations that each logical thread was to run.
    pub operations: u64,
    /// Number of events before the process was killed, if it was.
    pub killed_at: Option<usize>,
    /// The power cuts; a second one, or the first one after a kill, is inside of the recovery. Empty if the run itself failed,
    /// or the recovery after a kill.
    pub cuts: Vec<Cut>,
}

/// A power cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of events before it.
    pub point: usize,
    /// The lines or sectors that do not hold their oldest possible content, each with the number of its content.
    pub image: Vec<(u32, u16)>,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.point)?;
        for (index, (unit, version)) in self.image.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{unit}={version}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.seed, self.operations)?;
        if let Some(point) = self.killed_at {
            write!(f, "!{point}")?;
        }
        for (index, cut) in self.cuts.iter().enumerate() {
            write!(f, "{}{cut}", if index == 0 { '@' } else { '/' })?;
        }
        Ok(())
    }
}

/// The error for a text that is not a [`Replay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a replay: want seed.operations@point:unit=version,... or seed.operations!point")]
pub struct ParseReplayError;

impl FromStr for Cut {
    type Err = ParseReplayError;

    fn from_str(text: &str) -> Result<Cut, ParseReplayError> {
        let (point, image) = text.split_once(':').ok_or(ParseReplayError)?;
        let choice = |pair: &str| {
            let (unit, version) = pair.split_once('=')?;
            Some((unit.parse().ok()?, version.parse().ok()?))
        };
        let pairs = image.split(',').filter(|pair| !pair.is_empty());
        let image = pairs.map(|pair| choice(pair).ok_or(ParseReplayError)).collect::<Result<_, _>>()?;
        Ok(Cut { point: point.parse().map_err(|_| ParseReplayError)?, image })
    }
}

impl FromStr for Replay {
    type Err = ParseReplayError;

    fn from_str(text: &str) -> Result<Replay, ParseReplayError> {
        let (run, cuts) = text.split_once('@').map_or((text, None), |(run, cuts)| (run, Some(cuts)));
        let (run, killed_at) = run.split_once('!').map_or((run, None), |(run, point)| (run, Some(point)));
        let (seed, operations) = run.split_once('.').ok_or(ParseReplayError)?;
        let cuts =
            cuts.into_iter().flat_map(|cuts| cuts.split('/')).map(str::parse).collect::<Result<_, _>>()?;
        Ok(Replay {
            seed: seed.parse().map_err(|_| ParseReplayError)?,
            operations: operations.parse().map_err(|_| ParseReplayError)?,
            killed_at: killed_at.map(str::parse).transpose().map_err(|_| ParseReplayError)?,
            cuts,
        })
    }
}

/// The kinds of failure that end an exploration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The engine could not be formatted or started on an undamaged medium.
    Unusable {
        /// The error of the subject.
        error: String,
    },
    /// The run ended before its threads did.
    Stopped(RunAbort),
    /// Power was cut, and the recovery failed the check.
    PowerCut(RecoveryFailure),
    /// The process ended and the memory stayed, and the recovery failed the check.
    Kill(RecoveryFailure),
    /// A line was lost during the run, and a recovery after the run failed the check.
    Poisoned {
        /// Offset of the line.
        at: PoolOffset,
        /// The reason.
        failure: RecoveryFailure,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unusable { error } => write!(f, "the engine does not start: {error}"),
            Failure::Stopped(stop) => stop.fmt(f),
            Failure::PowerCut(failure) => failure.fmt(f),
            Failure::Kill(failure) => write!(f, "after a kill: {failure}"),
            Failure::Poisoned { at, failure } => write!(f, "the line at {at} was lost: {failure}"),
        }
    }
}

/// A failure of the engine, with the data to replay it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the image, for [`replay`](crate::replay).
    pub replay: Replay,
    /// The failure.
    pub failure: Failure,
    /// The operations that ended last or were in flight, one a line.
    pub history: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nreplay: {}\n{}", self.failure, self.replay, self.history)
    }
}

/// The result of an exploration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Number of different contents of the medium that were recovered from.
    pub images: u64,
    /// Number of those that a power cut inside of a recovery left.
    pub nested_images: u64,
    /// Number of recoveries that were checked. An image counts again at a crash point at which more operations had
    /// begun or returned.
    pub checks: u64,
    /// Number of places at which power was cut.
    pub crash_points: u64,
    /// Number of those of which every possible image was tried.
    pub exhausted_points: u64,
    /// The binary logarithm of the highest number of images that one crash point could have, tried or not.
    pub states_log2_max: f64,
    /// Number of runs of the workload, each with a seed of its own.
    pub runs: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// The first violation, shortened in a few attempts. The exploration ends there.
    pub violation: Option<Violation>,
}

impl Report {
    /// Returns the number of different images a second, with the time to make and check them.
    pub fn images_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.images as f64 / self.seconds } else { 0.0 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { images, nested_images, checks, crash_points, exhausted_points, states_log2_max, .. } =
            self;
        write!(f, "{images} images ({nested_images} inside recovery, {checks} checks) ")?;
        write!(f, "at {crash_points} crash points ({exhausted_points} exhausted, ")?;
        write!(f, "up to 2^{states_log2_max:.0} states) of {} runs, ", self.runs)?;
        write!(f, "{:.0} images a second: ", self.images_per_second())?;
        match &self.violation {
            None => f.write_str("no violation"),
            Some(violation) => write!(f, "VIOLATION\n{violation}"),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn replays_round_trip() {
        let cut = |point, image: &[(u32, u16)]| Cut { point, image: image.to_vec() };
        for cuts in [vec![], vec![cut(3, &[])], vec![cut(12, &[(1, 2), (9, 255)]), cut(0, &[(7, 1)])]] {
            for killed_at in [None, Some(7)] {
                let replay = Replay { seed: u64::MAX, operations: 4, killed_at, cuts: cuts.clone() };
                assert_eq!(replay.to_string().parse(), Ok(replay));
            }
        }
        for text in ["", "1", "1.x", "1.2@", "1.2@3", "1.2@3:4", "1.2@3:4=5=6", "1.2!", "1.2!x@3:"] {
            assert_eq!(text.parse::<Replay>(), Err(ParseReplayError), "{text}");
        }
    }
}
