//! Results of a command on several devices.

use crate::failure::Failure;
use crate::ndctl::{count_text, listing_value};
use crate::output::Output;
use crate::platform::failed;
use lode_platform::dax::{DaxError, DeviceId};
use lode_platform::ndctl;
use lode_platform::{Directory, Platform, PlatformError};

/// Results of a command for each of its devices. The command succeeds if its work is done for one.
#[derive(Debug, Default)]
pub(super) struct Tried {
    pub(super) done: Vec<DeviceId>,
    refusals: Vec<DaxError>,
    /// Work that was done already.
    notes: Vec<String>,
}

impl Tried {
    /// Runs `act` for each device, in one change of the machine. A refusal of one does not keep the others from it.
    pub(super) fn each(
        what: &'static str,
        directory: &mut Directory,
        ids: &[DeviceId],
        act: impl Fn(&mut Platform, DeviceId, &mut Tried) -> Result<(), DaxError>,
    ) -> Result<Tried, Failure> {
        let change = directory.change::<_, PlatformError>(|platform| {
            let mut tried = Tried::default();
            for id in ids {
                if let Err(refusal) = act(platform, *id, &mut tried) {
                    tried.refusals.push(refusal);
                }
            }
            Ok(tried)
        });
        change.map_err(failed(what))
    }

    /// Returns true if nothing was tried.
    pub(super) fn is_empty(&self) -> bool {
        self.done.is_empty() && self.refusals.is_empty()
    }

    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    pub(super) fn refuse(&mut self, refusal: DaxError) {
        self.refusals.push(refusal);
    }

    /// Returns the output that counts the devices, after `done` like `disabled`.
    pub(super) fn counted(self, what: &'static str, done: &str) -> Result<Output, Failure> {
        let text = count_text(done, self.done.len(), "device");
        self.output(what, text, Output::text)
    }

    /// Returns the output with the devices as daxctl lists them.
    pub(super) fn listed(
        self,
        what: &'static str,
        directory: &Directory,
        human: bool,
    ) -> Result<Output, Failure> {
        let listing = ndctl::inventory(directory.platform()).describe_dax(&self.done, human);
        let value = listing_value(&listing);
        self.output(what, listing, |text| Output::text(text).with("output", value))
    }

    fn output(
        self,
        what: &'static str,
        text: String,
        make: impl FnOnce(String) -> Output,
    ) -> Result<Output, Failure> {
        let Tried { done, refusals, notes } = self;
        let skipped: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        let noted: String = notes.iter().map(|note| format!("{note}\n")).collect();
        if done.is_empty() && notes.is_empty() && !refusals.is_empty() {
            let failures = refusals.into_iter().map(|refusal| failed(what)(refusal)).collect();
            if let Some(failure) = Failure::join(failures) {
                return Err(failure.after(noted + &text));
            }
        }
        let lines: String = skipped.iter().map(|refusal| format!("{refusal}, skipping...\n")).collect();
        let output = make(lines + &noted + &text);
        Ok(output.with("count", done.len()).with("skipped", skipped).with("notes", notes))
    }
}
