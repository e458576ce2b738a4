//! `lode ndctl setup-passphrase`, `update-passphrase`, `remove-passphrase`, `freeze-security`, `sanitize-dimm`,
//! `wait-overwrite` and `load-keys`.

use super::{count_output, count_text, number};
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use clap::Args;
use lode_platform::security::{self, KekHandle, Role, Sanitizing, SecurityError};
use lode_platform::{Directory, PlatformError, Purpose};
use std::path::PathBuf;

/// The name of the bus with all modules.
const BUS: &str = "ACPI.NFIT";

#[derive(Args, Debug)]
pub(super) struct Modules {
    /// Names of modules, as nmem0, or all
    #[arg(required = true, value_name = "DIMM")]
    names: Vec<String>,
    /// Only modules of this bus
    #[arg(short, long, value_name = "BUS")]
    bus: Option<String>,
    /// Print each module that a wait has ended for
    #[arg(short, long)]
    verbose: bool,
}

impl Modules {
    /// Returns the numbers of the modules.
    fn numbers(&self, directory: &Directory) -> Result<Vec<usize>, Failure> {
        let count = directory.platform().machine.modules.len();
        let is_of_bus = match self.bus.as_deref() {
            None | Some("all" | BUS) => true,
            Some(bus) => number(bus, "ndbus")? == 0,
        };
        let mut numbers = Vec::new();
        for name in &self.names {
            match name.as_str() {
                "all" => numbers.extend(0..count),
                name => numbers.push(number(name, "nmem")? as usize),
            }
        }
        numbers.retain(|_| is_of_bus);
        Ok(numbers)
    }

    /// Runs a command on each module, also after one that fails. The command returns true if it counts.
    fn each(
        &self,
        location: &MachineLocation,
        what: &'static str,
        mut command: impl FnMut(&mut Directory, usize) -> Result<bool, PlatformError>,
    ) -> Result<Counted, Failure> {
        let mut directory = location.open(Purpose::Change)?;
        let mut counted = Counted::default();
        for index in self.numbers(&directory)? {
            match command(&mut directory, index) {
                Ok(true) => counted.modules.push(index),
                Ok(false) => {}
                Err(error) => counted.failures.push(failed(what)(error)),
            }
        }
        Ok(counted)
    }
}

/// The modules on which a command succeeded, and the failures of the others.
#[derive(Debug, Default)]
struct Counted {
    modules: Vec<usize>,
    failures: Vec<Failure>,
}

impl Counted {
    /// Returns the output that counts the modules, with ndctl's words before and after the number.
    fn output(self, done: &str) -> Result<Output, Failure> {
        let count = self.modules.len();
        match Failure::join(self.failures) {
            Some(failure) if count == 0 => Err(failure),
            Some(failure) => Err(failure.after(count_text(done, count, "nmem"))),
            None => Ok(count_output(done, count, "nmem")),
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct Setup {
    #[command(flatten)]
    modules: Modules,
    /// Key that seals the passphrases, as user:nvdimm-master
    #[arg(short, long, value_name = "KEY", required = true, value_parser = kek)]
    key_handle: KekHandle,
    /// Set up the master passphrase in place of the user passphrase
    #[arg(short, long)]
    master_passphrase: bool,
}

impl Setup {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let role = role(self.master_passphrase);
        let counted = self.modules.each(location, "setting up a passphrase", |directory, index| {
            security::setup_passphrase(directory, index, role, &self.key_handle).map(|()| true)
        })?;
        counted.output("passphrase enabled for")
    }
}

#[derive(Args, Debug)]
pub(super) struct Update {
    #[command(flatten)]
    modules: Modules,
    /// Key that seals the new passphrases [default: the key that sealed the old one]
    #[arg(short, long, value_name = "KEY", value_parser = kek)]
    key_handle: Option<KekHandle>,
    /// Update the master passphrase in place of the user passphrase
    #[arg(short, long)]
    master_passphrase: bool,
}

impl Update {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let role = role(self.master_passphrase);
        let counted = self.modules.each(location, "updating a passphrase", |directory, index| {
            security::update_passphrase(directory, index, role, self.key_handle.as_ref()).map(|()| true)
        })?;
        counted.output("passphrase updated for")
    }
}

#[derive(Args, Debug)]
pub(super) struct Remove {
    #[command(flatten)]
    modules: Modules,
    /// Remove the master passphrase in place of the user passphrase; the kernel refuses this for NVDIMMs
    #[arg(short, long)]
    master_passphrase: bool,
}

impl Remove {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let role = role(self.master_passphrase);
        let counted = self.modules.each(location, "removing a passphrase", |directory, index| {
            security::remove_passphrase(directory, index, role).map(|()| true)
        })?;
        counted.output("passphrase removed for")
    }
}

#[derive(Args, Debug)]
pub(super) struct Freeze {
    #[command(flatten)]
    modules: Modules,
}

impl Freeze {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let counted = self.modules.each(location, "freezing security", |directory, index| {
            security::freeze_security(directory, index).map(|()| true)
        })?;
        counted.output("security froze")
    }
}

#[derive(Args, Debug)]
pub(super) struct Sanitize {
    #[command(flatten)]
    modules: Modules,
    /// Erase the media by a new media key, which keeps the labels; the default without --overwrite
    #[arg(short, long)]
    crypto_erase: bool,
    /// Overwrite media and labels; wait-overwrite waits for the end
    #[arg(short, long)]
    overwrite: bool,
    /// Erase by the master passphrase in place of the user passphrase
    #[arg(short, long)]
    master_passphrase: bool,
    /// Erase by a passphrase of zeros, which a module without one takes
    #[arg(short, long)]
    zero_key: bool,
}

impl Sanitize {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let sanitizing = Sanitizing {
            crypto_erase: self.crypto_erase,
            overwrite: self.overwrite,
            master: self.master_passphrase,
            zero_key: self.zero_key,
        };
        let counted = self.modules.each(location, "sanitizing a module", |directory, index| {
            security::sanitize(directory, index, sanitizing).map(|()| true)
        })?;
        counted.output(if self.overwrite { "overwrite issued for" } else { "sanitized" })
    }
}

#[derive(Args, Debug)]
pub(super) struct Wait {
    #[command(flatten)]
    modules: Modules,
}

impl Wait {
    /// Prints the modules only with `--verbose`, as ndctl does.
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let counted = self.modules.each(location, "waiting for an overwrite", security::wait_overwrite)?;
        let ended = counted.modules.iter().filter(|_| self.modules.verbose);
        let text: String = ended.map(|index| format!("nmem{index}: overwrite completed.\n")).collect();
        match Failure::join(counted.failures) {
            Some(failure) => Err(failure.after(text)),
            None => Ok(Output::text(text).with("count", counted.modules.len())),
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct LoadKeys {
    /// Folder of the keys [default: keys in the directory of the machine]
    #[arg(short = 'p', long, value_name = "DIR")]
    key_path: Option<PathBuf>,
    /// Handle of a TPM; refused, since emulated machines have none
    #[arg(short, long, value_name = "HANDLE")]
    tpm_handle: Option<String>,
}

impl LoadKeys {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "loading keys";
        if self.tpm_handle.is_some() {
            let place = "--tpm-handle".to_owned();
            return Err(failed(what)(SecurityError::TpmHandle { place }));
        }
        let mut directory = location.open(Purpose::Change)?;
        let loaded = security::load_keys(&mut directory, self.key_path.as_deref()).map_err(failed(what))?;
        let mut text = if loaded.kek { "nvdimm master key loaded.\n".to_owned() } else { String::new() };
        text += &format!("{} nvdimm keys loaded\n", loaded.keys);
        let unlocked: Vec<String> = loaded.unlocked.iter().map(|index| format!("nmem{index}")).collect();
        if !unlocked.is_empty() {
            text += &format!("unlocked {}\n", unlocked.join(", "));
        }
        let failures = loaded.failures.into_iter().map(|error| failed(what)(error)).collect();
        match Failure::join(failures) {
            Some(failure) => Err(failure.after(text)),
            None => Ok(Output::text(text).with("count", loaded.keys).with("unlocked", unlocked)),
        }
    }
}

fn role(master: bool) -> Role {
    if master { Role::Master } else { Role::User }
}

/// Parses the handle of a key-encryption-key.
fn kek(text: &str) -> Result<KekHandle, String> {
    text.parse().map_err(|error: SecurityError| error.to_string())
}
