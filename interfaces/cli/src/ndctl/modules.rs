//! Modules in the arguments of ndctl, and `lode ndctl enable-dimm`, `disable-dimm` and `check-labels`.

use super::base::BaseOptions;
use super::{count_text, number};
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use clap::Args;
use lode_platform::machine::{Module, Security};
use lode_platform::namespace::NamespaceError;
use lode_platform::{Directory, PlatformError, Purpose, nmem, security};

#[derive(Args, Debug)]
pub(super) struct ModuleNames {
    /// Names of modules, as nmem0, or all
    #[arg(required = true, value_name = "DIMM")]
    names: Vec<String>,
    #[command(flatten)]
    base: BaseOptions,
}

impl ModuleNames {
    /// Returns the numbers of the modules on the selected buses. `all` selects those that answer and are not locked, and
    /// CXL devices.
    pub(super) fn numbers(&self, directory: &Directory) -> Result<Vec<usize>, Failure> {
        let platform = directory.platform();
        let mut numbers = Vec::new();
        for name in &self.names {
            match name.as_str() {
                "all" => numbers.extend(nmem::all(platform)),
                name => numbers.push(number(name, "nmem")? as usize),
            }
        }
        let buses = self.base.buses(platform)?;
        let is_elsewhere = |index: usize| {
            nmem::find(platform, index).is_ok()
                && !buses.iter().flat_map(|bus| &bus.modules).any(|module| module.number as usize == index)
        };
        numbers.retain(|index| !is_elsewhere(*index));
        Ok(numbers)
    }

    /// Returns the numbers like [`numbers`](ModuleNames::numbers), where `all` selects no CXL device.
    pub(super) fn numbers_of_table(&self, directory: &Directory) -> Result<Vec<usize>, Failure> {
        let mut numbers = self.numbers(directory)?;
        if self.names.iter().any(|name| name == "all") {
            let count = directory.platform().machine.modules.len();
            numbers.retain(|index| *index < count);
        }
        Ok(numbers)
    }

    pub(super) fn set_enabled(&self, location: &MachineLocation, enable: bool) -> Result<Output, Failure> {
        let mut directory = location.open(Purpose::Change)?;
        let mut numbers = self.numbers(&directory)?;
        let mut tried = Tried::default();
        if enable {
            // The kernel unlocks a module when its driver takes it.
            numbers.retain(|index| tried.unlock(&mut directory, *index));
        }
        let change = directory.change::<_, PlatformError>(|platform| {
            for index in numbers {
                tried.add(nmem::enable(platform, index, enable));
            }
            Ok(tried)
        });
        let (what, done) =
            if enable { ("enabling a module", "enabled") } else { ("disabling a module", "disabled") };
        let tried = change.map_err(failed(what))?;
        let text = count_text(done, tried.done, "nmem");
        tried.output(what, text)
    }

    pub(super) fn check_labels(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let directory = location.open(Purpose::ReadOnly)?;
        let mut tried = Tried::default();
        for index in self.numbers(&directory)? {
            tried.add(nmem::check_labels(directory.platform(), index));
        }
        let plural = if tried.done > 1 { "s" } else { "" };
        let text = format!("successfully verified {} nmem label{plural}\n", tried.done);
        tried.output("checking labels", text)
    }
}

/// Results of a command for each of its modules. Like ndctl, the command succeeds if it does its work for one.
#[derive(Debug, Default)]
struct Tried {
    done: usize,
    refusals: Vec<PlatformError>,
}

impl Tried {
    fn add(&mut self, result: Result<(), NamespaceError>) {
        match result {
            Ok(()) => self.done += 1,
            Err(refusal) => self.refusals.push(refusal.into()),
        }
    }

    /// Unlocks the module if it is locked, by its key in the keyring. Returns false if it stays locked.
    fn unlock(&mut self, directory: &mut Directory, index: usize) -> bool {
        let is_locked = |module: &Module| module.security == Security::Locked;
        if !directory.platform().machine.modules.get(index).is_some_and(is_locked) {
            return true;
        }
        match security::unlock_with_key(directory, index) {
            Ok(_) => true,
            Err(refusal) => {
                self.refusals.push(refusal);
                false
            }
        }
    }

    fn output(self, what: &'static str, text: String) -> Result<Output, Failure> {
        if self.done == 0 {
            let failures = self.refusals.into_iter().map(|refusal| failed(what)(refusal)).collect();
            return Failure::join(failures).map_or(
                Ok(Output::text(text.clone()).with("count", 0).with("skipped", Vec::<String>::new())),
                |failure| Err(failure.after(text)),
            );
        }
        let skipped: Vec<String> = self.refusals.iter().map(ToString::to_string).collect();
        let lines: String = skipped.iter().map(|refusal| format!("{refusal}, skipping...\n")).collect();
        Ok(Output::text(lines + &text).with("count", self.done).with("skipped", skipped))
    }
}
