//! Results of a command on several objects.

use crate::failure::Failure;
use crate::output::Output;
use crate::platform::failed;
use lode_platform::{Directory, Platform, PlatformError};

/// Results of a command for each of its objects.
#[derive(Debug)]
pub(super) struct Tried<T> {
    pub(super) done: Vec<T>,
    pub(super) refusals: Vec<PlatformError>,
    /// Names that select nothing.
    pub(super) notes: Vec<String>,
}

impl<T> Default for Tried<T> {
    fn default() -> Tried<T> {
        Tried { done: Vec::new(), refusals: Vec::new(), notes: Vec::new() }
    }
}

impl<T> Tried<T> {
    /// Runs `act` for each object, in one change of the machine. A refusal of one does not keep the others from it.
    pub(super) fn each<E: Into<PlatformError>>(
        what: &'static str,
        directory: &mut Directory,
        (objects, notes): (Vec<u32>, Vec<String>),
        act: impl Fn(&mut Platform, u32) -> Result<T, E>,
    ) -> Result<Tried<T>, Failure> {
        let change = directory.change::<_, PlatformError>(|platform| {
            let mut tried = Tried { notes, ..Tried::default() };
            for object in objects {
                // A refused change may have begun.
                let before = platform.clone();
                match act(platform, object) {
                    Ok(done) => tried.done.push(done),
                    Err(refusal) => {
                        *platform = before;
                        tried.refusals.push(refusal.into());
                    }
                }
            }
            Ok(tried)
        });
        change.map_err(failed(what))
    }

    /// Returns why objects and names were skipped.
    pub(super) fn skipped(&self) -> Vec<String> {
        self.refusals.iter().map(ToString::to_string).chain(self.notes.clone()).collect()
    }

    /// Returns the output. With `all`, a refusal fails the command even if it did its work for another object, as cxl's
    /// commands on regions and ports do; otherwise it is skipped.
    pub(super) fn output(self, what: &'static str, text: &str, all: bool) -> Result<Output, Failure> {
        let skipped = self.skipped();
        let Tried { done, refusals, notes } = self;
        let noted: String = notes.iter().map(|note| format!("{note}\n")).collect();
        let lines: String = refusals.iter().map(|refusal| format!("{refusal}, skipping...\n")).collect();
        if !refusals.is_empty() && (all || done.is_empty()) {
            let failures = refusals.into_iter().map(|refusal| failed(what)(refusal)).collect();
            if let Some(failure) = Failure::join(failures) {
                return Err(failure.after(noted + text));
            }
        }
        let output = Output::text(format!("{noted}{lines}{text}"));
        Ok(output.with("count", done.len()).with("skipped", skipped))
    }
}

/// Returns the line that counts things as cxl does.
pub(super) fn counted(done: &str, count: usize, thing: &str) -> String {
    // cxl takes no region for several, and no device for one.
    let plural = count > 1 || (count == 0 && thing == "region");
    format!("{done} {count} {thing}{}\n", if plural { "s" } else { "" })
}
