//! A trial: runs a program on a disk whose power is cut, and checks the images that are left.

use crate::{Disk, Requests, Survival, Volume};
use anyhow::{Context, Result, bail};
use rustix::fs::{Advice, fadvise};
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Time that a program may take until it has made the request at which the power is cut.
const CUT_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest pauses between two write-backs that the program did not ask for, in microseconds; each trial draws one. With
/// long pauses most of the unsynced content never reaches the disk, with short pauses most of it does.
const PAUSES_MAX: [u64; 3] = [2_000, 20_000, 2_000_000];

/// The parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// A pool in a file, the content of the disk when the program starts.
    pub pool: &'a Path,
    /// A folder for the mounted file system, and for images.
    pub folder: &'a Path,
    /// Number of the request during which the power is cut, from 1.
    pub cut_at: u64,
    /// Number of images to draw, besides the two in which all sectors in doubt are old or all are new.
    pub samples: u64,
    /// Seed of all choices except those of the kernel.
    pub seed: u64,
}

/// Result of a trial.
#[derive(Debug)]
pub struct Verdict {
    /// Requests of the program to the disk.
    pub requests: Requests,
    /// Number of sectors that were written and not durable when the power was cut.
    pub sectors_in_doubt: usize,
    /// Output of the program until it was killed.
    pub output: String,
    /// The first wrong image, and its fault.
    pub failure: Option<(Survival, anyhow::Error)>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { requests, sectors_in_doubt, output, failure } = self;
        let lines = output.lines().count();
        write!(f, "{requests}; {sectors_in_doubt} sectors in doubt; {lines} lines printed")?;
        match failure {
            None => Ok(()),
            Some((survival, error)) => write!(f, "; {survival:?}: {error:#}"),
        }
    }
}

impl Trial<'_> {
    /// Runs the program that `command` makes for the path of a pool until the power is cut, and kills it. Then passes
    /// each possible image to `verify`, in a file of its own, with the output of the program.
    ///
    /// Returns the inner error when this machine can't mount a FUSE file system; it holds the reason.
    ///
    /// # Errors
    /// The program ended by itself or made too few requests; or the trial itself failed.
    pub fn run(
        &self,
        command: impl FnOnce(&Path) -> Command,
        verify: impl Fn(&Path, &str) -> Result<()>,
    ) -> Result<Result<Verdict, std::io::Error>> {
        let content = fs::read(self.pool).context("reading the pool")?;
        let volume = match Volume::mount(Disk::new(content, self.cut_at), self.folder) {
            Ok(volume) => volume,
            Err(error) => return Ok(Err(error)),
        };
        let output = self.run_until_cut(&volume, command(&volume.path()))?;
        let disk = volume.disk();
        let samples = (0..self.samples).map(|number| Survival::Sampled(self.seed.wrapping_add(number)));
        let mut failure = None;
        for survival in [Survival::Old, Survival::New].into_iter().chain(samples) {
            let file = tempfile::NamedTempFile::new_in(self.folder)?;
            fs::write(file.path(), disk.image(survival))?;
            if let Err(error) = verify(file.path(), &output) {
                failure = Some((survival, error));
                break;
            }
        }
        let (requests, sectors_in_doubt) = (disk.requests(), disk.sectors_in_doubt());
        Ok(Ok(Verdict { requests, sectors_in_doubt, output, failure }))
    }

    /// Runs the program until the power is cut, and kills it. Returns its output.
    fn run_until_cut(&self, volume: &Volume, mut command: Command) -> Result<String> {
        let file = File::options().read(true).write(true).open(volume.path())?;
        let mut program = Program(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
        let mut stdout = program.0.stdout.take().context("no standard output")?;
        let mut output = String::new();
        thread::scope(|scope| {
            let reader = scope.spawn(|| stdout.read_to_string(&mut output));
            scope.spawn(|| write_back_randomly(volume.disk(), &file, self.seed));
            let mut waited = Duration::ZERO;
            let step = Duration::from_millis(100);
            let ended = loop {
                if volume.disk().wait_until_off(step) {
                    break None;
                }
                waited += step;
                if waited >= CUT_TIMEOUT {
                    break Some("it did not ask for that much".to_owned());
                }
                if let Some(status) = program.0.try_wait()? {
                    break Some(format!("it ended by itself: {status}"));
                }
            };
            // SIGKILL: the output so far is in the pipe, and the program prints no more.
            program.0.kill()?;
            program.0.wait()?;
            volume.disk().turn_off();
            reader.join().expect("reading does not panic").context("reading what it printed")?;
            match ended {
                None => Ok(()),
                Some(why) => bail!("the power is still on after {}: {why}", volume.disk().requests()),
            }
        })?;
        Ok(output)
    }
}

/// Makes the kernel write back dirty pages of a mounted file at random times, as under memory pressure, until the power is off.
/// That makes nothing durable.
pub fn write_back_randomly(disk: &Disk, file: &File, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let pause_max = PAUSES_MAX[random.usize(..PAUSES_MAX.len())];
    while !disk.wait_until_off(Duration::from_micros(random.u64(..pause_max))) {
        // This starts the write-back of dirty pages without waiting, and drops clean ones. It is only advice.
        let _ = fadvise(file, 0, None, Advice::DontNeed);
    }
}

/// A running program, killed when the trial ends.
#[derive(Debug)]
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // The program has ended already, or the trial failed and its error is the one to report.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
