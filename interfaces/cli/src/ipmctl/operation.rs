//! `lode ipmctl set`, `load`, `dump` and `start`.

use super::{Ipmctl, confirm, help_output, in_json, modules, output, refused};
use crate::failure::Failure;
use crate::ndctl::listing_value;
use crate::output::Output;
use crate::platform::{failed, real, write_atomically};
use lode_platform::firmware::FirmwareImage;
use lode_platform::goal;
use lode_platform::ipmctl::{
    self, Configuration, ConfigurationFault, DisplayOptions, FirmwareLoad, Operation, OperationCommand,
    PreferenceChange, Subject, Verdict, configuration_text, diagnose,
};
use lode_platform::machine::IpmctlGeneration;
use lode_platform::{Directory, Format, Handle, Platform, PlatformError, Purpose, Targets};
use serde_json::json;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Largest file that is read as a configuration. A larger one is refused by its parser.
const CONFIGURATION_LEN_MAX: u64 = (1 << 20) + 1;

/// Runs a command that begins with `set`, `load`, `dump` or `start`.
pub(super) fn run(command: &Ipmctl, json: bool) -> Result<Output, Failure> {
    let words = &command.command;
    if command.location.is_real() {
        let parsed = OperationCommand::parse(words, IpmctlGeneration::Three);
        return match parsed.map_err(|refusal| refused(*refusal))? {
            None => help_output(json),
            Some(_) => Ok(real::tool_commands_output(&[real::command("ipmctl", words.clone())])),
        };
    }
    let is_verb = |verb: &str| words.first().is_some_and(|word| word.eq_ignore_ascii_case(verb));
    let purpose = if is_verb("dump") || is_verb("start") { Purpose::ReadOnly } else { Purpose::Change };
    let mut directory = command.location.open(purpose)?;
    let generation = directory.platform().machine.profile.ipmctl;
    let parsed = OperationCommand::parse(words, generation).map_err(|refusal| refused(*refusal))?;
    let Some(checked) = parsed else { return help_output(json) };
    match checked.prepare(directory.platform()).map_err(|refusal| refused(*refusal))? {
        Operation::SetSensor { change, asks } => {
            let what = "setting a sensor";
            if asks {
                confirm_each(&change.modules, "Modifying settings on PMem module", what, json)?;
            }
            let done = directory.change(|platform| change.apply(platform)).map_err(failed(what))?;
            Ok(Output::text(done).with("output", modules(&change.modules)))
        }
        Operation::SetDimm { injection } => {
            let done = directory.change(|platform| injection.apply(platform));
            let done = done.map_err(failed("setting a module"))?;
            Ok(Output::text(done).with("output", modules(&injection.modules)))
        }
        Operation::SetPreferences { change } => set_preferences(&mut directory, change),
        Operation::LoadFirmware { source, modules, examines, asks } => {
            load_firmware(&mut directory, &source, &modules, examines, asks, json)
        }
        Operation::LoadGoal { source, targets, display, asks } => {
            load_goal(&mut directory, &source, &targets, &display, asks, json)
        }
        Operation::DumpConfig { destination } => dump(&directory, &destination),
        Operation::Diagnose { tests, modules, display } => {
            let format = in_json(display, json)?.format;
            let found = diagnose(directory.platform(), &tests, &modules, format);
            Ok(output(found.map_err(failed("running diagnostics"))?, json))
        }
    }
}

/// Sets the preferences whose values are taken.
fn set_preferences(directory: &mut Directory, change: PreferenceChange) -> Result<Output, Failure> {
    let set = directory.change::<_, PlatformError>(|platform| {
        change.apply(platform);
        Ok(())
    });
    set.map_err(failed("setting preferences"))?;
    let text = change.outcome().map_err(|refusal| refused(*refusal))?;
    let display = DisplayOptions { format: Format::Json, ..DisplayOptions::default() };
    let shown = ipmctl::show(directory.platform(), &Subject::Preferences, &Targets::default(), &display);
    let shown = shown.map_err(failed("showing preferences"))?;
    Ok(Output::text(text).with("output", listing_value(&shown)))
}

/// Asks the user for each module.
fn confirm_each(modules: &[Handle], question: &str, what: &str, json: bool) -> Result<(), Failure> {
    modules.iter().try_for_each(|module| {
        confirm(&format!("{question} {module}.\nDo you want to continue? [y/n] "), what, json)
    })
}

/// Reads a file up to a length.
fn read(path: &Path, len_max: u64, what: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let file = File::open(path).and_then(|file| file.take(len_max).read_to_end(&mut bytes));
    file.map_err(|error| Failure::new(what, format!("{}: {error}; check the path", path.display())))?;
    Ok(bytes)
}

/// Examines an image, or stages it on each module.
fn load_firmware(
    directory: &mut Directory,
    source: &Path,
    handles: &[Handle],
    examines: bool,
    asks: bool,
    json: bool,
) -> Result<Output, Failure> {
    let what = "loading firmware";
    let bytes = read(source, FirmwareImage::len_max() + 1, what)?;
    let parsed = FirmwareImage::parse(&bytes);
    let load = FirmwareLoad { image: parsed.as_ref().ok(), modules: handles };
    if examines {
        let head = parsed
            .as_ref()
            .map_or(String::new(), |image| format!("{}: {}\n", source.display(), image.version));
        let text = head + &load.examine(directory.platform());
        return match &parsed {
            Ok(_) => Ok(Output::text(text).with("output", modules(handles))),
            Err(fault) => Err(Failure::of_tool(text, 1, format!("{}: {fault}", source.display()))),
        };
    }
    if asks {
        let platform = directory.platform();
        let is_downgrade = |module: &&Handle| load.verdict(platform, **module) == Verdict::Downgrade;
        let downgrades: Vec<Handle> = handles.iter().filter(is_downgrade).copied().collect();
        confirm_each(&downgrades, "Downgrade firmware on PMem module", what, json)?;
    }
    let staged = directory.change::<_, PlatformError>(|platform| Ok(load.stage(platform)));
    match (staged.map_err(failed(what))?, &parsed) {
        ((text, true), _) => Ok(Output::text(text).with("output", modules(handles))),
        ((text, false), Err(fault)) => {
            Err(Failure::of_tool(text, 1, format!("{}: {fault}", source.display())))
        }
        ((text, false), Ok(_)) => {
            let why = "a module did not take the image; `lode ipmctl show -a -firmware` shows what it has";
            Err(Failure::of_tool(text, 1, why.to_owned()))
        }
    }
}

/// Makes the goals of a stored configuration.
fn load_goal(
    directory: &mut Directory,
    source: &Path,
    targets: &Targets,
    display: &DisplayOptions,
    asks: bool,
    json: bool,
) -> Result<Output, Failure> {
    let what = "loading goals";
    let bytes = read(source, CONFIGURATION_LEN_MAX, what)?;
    let generation = directory.platform().machine.profile.ipmctl;
    let wrong = |fault: ConfigurationFault| {
        let mut refusal = fault.refusal(generation);
        refusal.why = format!("{}: {}", source.display(), refusal.why);
        refused(refusal)
    };
    let configuration = Configuration::parse(&bytes).map_err(wrong)?;
    let listed = in_json(display.clone(), json)?;
    let goals = configuration.goals(directory.platform(), targets).map_err(wrong)?;
    if asks {
        let question = format!(
            "Load the configuration goal from '{}' which will delete existing data and provision the capacity of the \
             PMem modules on the next reboot.\nDo you want to continue? [y/n] ",
            source.display()
        );
        confirm(&question, what, json)?;
    }
    let change = |platform: &mut Platform| {
        goal::create(platform, goals.clone());
        ipmctl::show(platform, &Subject::Goal, targets, &listed)
    };
    let made = directory.change(change).map_err(failed(what))?;
    Ok(match (json, display.format) {
        (false, Format::Text) => Output::text(format!("Loaded following pool configuration goal\n{made}")),
        _ => output(made, json),
    })
}

/// Stores the configuration in a file, which it replaces.
fn dump(directory: &Directory, destination: &Path) -> Result<Output, Failure> {
    let what = "storing a configuration";
    let text = configuration_text(directory.platform()).map_err(|refusal| refused(*refusal))?;
    let shown = destination.display();
    write_atomically(what, destination, text.as_bytes())?;
    let said = format!("Successfully dumped system configuration to file: {shown}\n");
    Ok(Output::text(said).with("output", json!([{ "File": shown.to_string() }])))
}
