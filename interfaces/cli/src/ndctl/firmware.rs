//! `lode ndctl update-firmware` and `activate-firmware`.

use super::listing_value;
use super::modules::ModuleNames;
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use clap::Args;
use lode_platform::firmware::{self, FirmwareError, FirmwareImage};
use lode_platform::ndctl::{self, Included, ListFilter, ListRequest, NdBus};
use lode_platform::{Directory, Platform, PlatformError, Purpose};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(super) struct Update {
    #[command(flatten)]
    modules: ModuleNames,
    /// Image to stage; it runs after an activation or a start
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["arm", "disarm"])]
    firmware: Option<PathBuf>,
    /// Replace a staged image, and arm more modules than the platform has time for
    #[arg(short = 'i', long)]
    force: bool,
    /// Arm the modules for an activation; the default with an image
    #[arg(short = 'A', long)]
    arm: bool,
    /// Do not arm the modules
    #[arg(long, conflicts_with_all = ["arm", "disarm"], requires = "firmware")]
    no_arm: bool,
    /// Disarm the modules
    #[arg(short = 'D', long, conflicts_with = "arm")]
    disarm: bool,
}

impl Update {
    /// Updates each module, also after one that is refused. Succeeds if one of them was updated, like ndctl.
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let image = self.firmware.as_deref().map(read_image).transpose()?;
        let mut directory = location.open(Purpose::Change)?;
        let (mut done, mut refusals, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for index in self.modules.numbers_of_table(&directory)? {
            match self.update(&mut directory, index, image.as_ref()) {
                Ok(note) => {
                    done.push(index);
                    notes.extend(note);
                }
                Err(refusal) => refusals.push(refusal),
            }
        }
        let plural = if done.len() == 1 { "" } else { "s" };
        let count = format!("updated {} nmem{plural}.\n", done.len());
        if done.is_empty() {
            let refusals = refusals.into_iter().map(|refusal| failed("updating firmware")(refusal));
            return Err(Failure::join(refusals.collect()).map_or_else(
                || Failure::new("updating firmware", "no module is selected; name some, as nmem0"),
                |failure| failure.after(count),
            ));
        }
        notes.extend(refusals.iter().map(ToString::to_string));
        let listed = listing(directory.platform(), &done);
        // A reader of the notes may be slow. Others can change the machine meanwhile.
        drop(directory);
        notes.iter().for_each(|note| eprintln!("lode: note: {note}"));
        let value = listing_value(&listed);
        Ok(Output::text(listed + &count)
            .with("count", done.len())
            .with("skipped", notes)
            .with("output", value))
    }

    /// Updates a module. Without an image, a module that can't be armed is refused. With one, the image stays staged, and
    /// the reason is returned; a platform that activates firmware at a start only is none.
    fn update(
        &self,
        directory: &mut Directory,
        index: usize,
        image: Option<&FirmwareImage>,
    ) -> Result<Option<String>, PlatformError> {
        let Some(image) = image else {
            directory.change(|platform| self.switch(platform, index))?;
            return Ok(None);
        };
        // One change: after a kill in between, the next command would be refused, since the module has an image.
        directory.change(|platform| {
            firmware::stage(platform, index, image, self.force)?;
            if self.no_arm {
                return Ok::<_, FirmwareError>(None);
            }
            Ok(match self.switch(platform, index) {
                Ok(()) | Err(FirmwareError::NoActivation { .. }) => None,
                Err(refusal) => Some(refusal.to_string()),
            })
        })
    }

    fn switch(&self, platform: &mut Platform, index: usize) -> Result<(), FirmwareError> {
        if self.disarm {
            firmware::disarm(platform, index)
        } else {
            firmware::arm(platform, index, self.force)
        }
    }
}

/// Reads an image. A file that is longer than any image is not read to its end.
fn read_image(path: &Path) -> Result<FirmwareImage, Failure> {
    let what = "reading a firmware image";
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FirmwareImage::len_max() + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::io(what, path, &error))?;
    FirmwareImage::parse(&bytes)
        .map_err(|fault| Failure::new(what, format_args!("{}: {fault}", path.display())))
}

/// Lists modules with their firmware.
fn listing(platform: &Platform, modules: &[usize]) -> String {
    let names: Vec<String> = modules.iter().map(|index| format!("nmem{index}")).collect();
    let included = Included { modules: true, firmware: true, idle: true, ..Included::default() };
    let filter = ListFilter { module: Some(names.join(" ")), ..ListFilter::default() };
    ndctl::inventory(platform).list(&ListRequest { included, filter, human: false })
}

#[derive(Args, Debug)]
pub(super) struct Activate {
    /// Names of buses, as ndbus0 or ACPI.NFIT; all if none is named
    #[arg(value_name = "BUS")]
    names: Vec<String>,
    /// Check that firmware can be activated, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Keep to the time that the platform has for an activation; the default
    #[arg(short = 'I', long)]
    idle: bool,
    /// Take more time than the platform has for an activation
    #[arg(long, conflicts_with = "idle")]
    no_idle: bool,
    /// Activate firmware while the machine runs, also if the platform would suspend it; an emulated machine takes no
    /// time either way
    #[arg(short, long)]
    force: bool,
    /// Accepted for compatibility with ndctl; without effect
    #[arg(short, long)]
    verbose: bool,
}

impl Activate {
    /// Activates the firmware of each bus, also after one that is refused. Succeeds if one of them takes it, like ndctl.
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let mut directory = location.open(Purpose::Change)?;
        let (mut done, mut refusals) = (Vec::new(), Vec::new());
        for bus in self.buses(directory.platform())? {
            let name = format!("{}: ndbus{}", bus.provider, bus.number);
            let answer = directory.change(|platform| {
                if bus.modules.is_empty() {
                    return Err(FirmwareError::NoUpdates { bus: name });
                }
                firmware::activate(platform, &name, !self.no_idle, self.dry_run)
            });
            match answer {
                Ok(()) => done.push(bus.number),
                Err(refusal) => refusals.push(refusal),
            }
        }
        if done.is_empty() {
            let refusals = refusals.into_iter().map(|refusal| failed("activating firmware")(refusal));
            return Err(Failure::join(refusals.collect())
                .unwrap_or_else(|| Failure::new("activating firmware", "the machine has no bus")));
        }
        let skipped: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        let listed = ndctl::inventory(directory.platform()).list_activation(&done);
        drop(directory);
        skipped.iter().for_each(|refusal| eprintln!("lode: note: {refusal}"));
        let value = listing_value(&listed);
        Ok(Output::text(listed).with("count", done.len()).with("skipped", skipped).with("output", value))
    }

    /// Returns the named buses, each once.
    fn buses(&self, platform: &Platform) -> Result<Vec<NdBus>, Failure> {
        let all = ndctl::inventory(platform).buses;
        let unknown =
            self.names.iter().find(|name| *name != "all" && !all.iter().any(|bus| bus.is_called(name)));
        if let Some(name) = unknown {
            let why = format!("there is no bus {name}; `lode ndctl list -B` lists them");
            return Err(Failure::new("activating firmware", why));
        }
        let is_named = |bus: &NdBus| {
            self.names.is_empty() || self.names.iter().any(|name| name == "all" || bus.is_called(name))
        };
        Ok(all.into_iter().filter(is_named).collect())
    }
}
