//! `lode platform image`.

use super::{MachineLocation, failed};
use crate::failure::{DAMAGED, Failure};
use crate::fields;
use crate::interrupt::Interrupt;
use crate::ndctl::listing_value;
use crate::output::Output;
use crate::progress::Progress;
use crate::size;
use clap::{Args, Subcommand, ValueEnum};
use lode_nvdimm::NamespaceLabel;
use lode_platform::image::{
    CopyProgress, ExportImage, Image, ImageContents, ImageFormat, ImageLayout, ImageNamespace, ImportImage,
    QemuSlot,
};
use lode_platform::{PlatformError, Purpose, one_line};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::PathBuf;
use uuid::Uuid;

/// The commands of `lode platform image`.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Make an image of a region, a namespace or a module
    Export(Export),
    /// Import the changes that a virtual machine made to an image
    Import(Import),
    /// List the contents of an image
    Show(Show),
}

pub(crate) fn run(command: &ImageCommand) -> Result<Output, Failure> {
    match command {
        ImageCommand::Export(export) => export.run(),
        ImageCommand::Import(import) => import.run(),
        ImageCommand::Show(show) => show.run(),
    }
}

const EXPORT_FIELDS: &[(&str, &str)] = &[
    ("file", "the image"),
    ("data_len", "bytes of data"),
    ("label_len", "bytes of the label area after it; 0 without one"),
    ("namespaces", "the namespaces in it, by their names in this machine"),
    ("qemu", "the options with which QEMU boots with it, one string each; none for a module"),
    ("base_align", "alignment of its address in the virtual machine, in bytes; 0 if any"),
];

const EXPORT_HELP: &str = "\
An image for nvdimm holds the data of the region, or of the namespace alone, followed by a label area for the module \
that QEMU puts into the slot. Without --for, the image of a module (DIMM) is a copy of its media and its labels, which \
only `import` reads. An image for virtio-pmem holds the usable bytes of a namespace, without labels: of a namespace of \
mode sector, its sectors. A kata-root is a file system as Kata Containers boots it. Images are sparse.";

/// The value of `--for`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormOption {
    /// `-device nvdimm`, with labels
    Nvdimm,
    /// `-device virtio-pmem-pci`, without labels
    VirtioPmem,
    /// A root file system for Kata Containers
    KataRoot,
}

#[derive(Args, Debug)]
#[command(after_help = EXPORT_HELP, after_long_help = format!("{EXPORT_HELP}\n\n{}", fields::help(EXPORT_FIELDS)))]
pub(crate) struct Export {
    /// Source of the image: region0, namespace0.0, nmem0 or 0x0001
    #[arg(value_name = "REGION|NAMESPACE|DIMM")]
    source: String,
    /// The image, which must not exist yet
    file: PathBuf,
    /// Use of the image in a virtual machine
    #[arg(long = "for", value_name = "FORM", default_value = "nvdimm")]
    form: FormOption,
    /// Slot of the virtual machine for which the labels are made
    #[arg(long, value_name = "N", default_value_t = 0)]
    slot: u8,
    #[command(flatten)]
    location: MachineLocation,
}

impl Export {
    fn run(&self) -> Result<Output, Failure> {
        let what = "exporting an image";
        let directory = self.location.open(Purpose::ReadOnly)?;
        let interrupt = Interrupt::listen()?;
        let form = match self.form {
            FormOption::Nvdimm => ImageFormat::Nvdimm,
            FormOption::VirtioPmem => ImageFormat::VirtioPmem,
            FormOption::KataRoot => ImageFormat::KataRoot,
        };
        let wanted = ExportImage { source: self.source.clone(), format: form, slot: QemuSlot(self.slot) };
        let len = directory.export_len(&wanted).map_err(failed(what))?;
        let made = with_progress(what, len, &interrupt, |watch| {
            directory.export_image(&wanted, &self.file, Uuid::new_v4(), watch)
        });
        let made = made.map_err(failed(what))?;
        let file = self.file.display().to_string();
        let (data, labels) = (made.layout.data_len, made.layout.label_len);
        let mut text = format!("{file}: {data} bytes of data, {labels} bytes of labels");
        if !made.namespaces.is_empty() {
            text += &format!(", {}", made.namespaces.join(", "));
        }
        text += "\n";
        if !made.qemu.is_empty() {
            text += &format!("\nqemu-system-x86_64 {}\n", shell_line(&made.qemu));
        }
        if made.base_align > ImageLayout::DATA_UNIT {
            text += &format!(
                "\nIts address in the virtual machine must be a multiple of {} bytes; that of the first module is one \
                 of 1 GiB.\n",
                made.base_align
            );
        }
        let output = Output::text(text).with("file", file).with("data_len", data).with("label_len", labels);
        let output = output.with("namespaces", made.namespaces).with("qemu", made.qemu);
        Ok(output.with("base_align", made.base_align))
    }
}

/// Quotes words for a shell, with an option and its value on each line.
fn shell_line(words: &[String]) -> String {
    let quoted = |word: &String| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=,./:".contains(&byte);
        if word.bytes().all(is_plain) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    let lines: Vec<String> =
        words.chunks(2).map(|pair| pair.iter().map(quoted).collect::<Vec<_>>().join(" ")).collect();
    lines.join(" \\\n    ")
}

const IMPORT_FIELDS: &[(&str, &str)] = &[
    ("file", "the image"),
    ("into", "target of the import"),
    ("namespaces", "the namespaces of the target now"),
    ("made", "how many of them are new"),
    ("gone", "how many were destroyed"),
    ("skipped", "what was left out, with --partial"),
];

const IMPORT_HELP: &str = "\
Data and namespaces of the region, the namespace or the module become those of the image; namespaces that the kernel \
created or destroyed in the image are created or destroyed here. The namespaces in an image identify its source: the \
region, or the namespace, with the uuid of one of them at the same place, if the sizes agree. The image of a module is \
identified by the set that its labels name. If neither determines the source, or if the image is one for virtio-pmem, \
--into is required. An image is refused if its labels are torn, overlap, are half-written or name a set that is neither \
QEMU's nor this machine's, or if it is truncated; nothing is changed then. The same holds for what a virtual machine made \
in the padding of an image; --partial imports the rest.";

#[derive(Args, Debug)]
#[command(after_help = IMPORT_HELP, after_long_help = format!("{IMPORT_HELP}\n\n{}", fields::help(IMPORT_FIELDS)))]
pub(crate) struct Import {
    /// The image
    file: PathBuf,
    /// Target of the import, if the labels do not determine it: region0, namespace0.0, nmem0 or 0x0001
    #[arg(long, value_name = "REGION|NAMESPACE|DIMM")]
    into: Option<String>,
    /// Leave out namespaces and data that lie in the padding of the image, or can't be spread over the modules
    #[arg(long)]
    partial: bool,
    #[command(flatten)]
    area: LabelAreaArgs,
    #[command(flatten)]
    location: MachineLocation,
}

#[derive(Args, Debug)]
struct LabelAreaArgs {
    /// Size of the label area in bytes, if the length of the file does not determine it
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    label_size: Option<u64>,
}

impl Import {
    fn run(&self) -> Result<Output, Failure> {
        let what = "importing an image";
        let image = Image::open(&self.file, self.area.label_size).map_err(failed(what))?;
        let mut directory = self.location.open(Purpose::Change)?;
        let interrupt = Interrupt::listen()?;
        let len = image.layout().data_len;
        let wanted = ImportImage { into: self.into.clone(), partial: self.partial };
        let done =
            with_progress(what, len, &interrupt, |watch| directory.import_image(&image, &wanted, watch));
        let done = done.map_err(failed(what))?;
        let file = self.file.display().to_string();
        let mut text = format!(
            "{file} went into {}: {} namespaces, {} of them new, {} gone\n",
            done.destination,
            done.namespaces.len(),
            done.created,
            done.removed
        );
        let skipped: Vec<String> = done.skipped.iter().map(ToString::to_string).collect();
        skipped.iter().for_each(|one| text += &format!("left out: {one}\n"));
        let output = Output::text(text).with("file", file).with("into", done.destination);
        let output = output.with("namespaces", done.namespaces);
        Ok(output.with("made", done.created).with("gone", done.removed).with("skipped", skipped))
    }
}

const SHOW_FIELDS: &[(&str, &str)] = &[
    ("file", "the image"),
    ("data_len", "bytes of data"),
    ("label_len", "bytes of the label area after it; 0 without one"),
    ("version", "version of its labels, 1.1 or 1.2; null without labels"),
    (
        "labels",
        "of each label the slot of the label area, the uuid and the name of the namespace, the set as a number, position \
         and count in the set, and dpa and size in bytes",
    ),
    ("slot", "the slot of the virtual machine that the labels are for; null if no label names one"),
    (
        "faults",
        "what is wrong with labels, which a kernel does not use then; the exit code is 3 if anything is",
    ),
    (
        "namespaces",
        "of each dev, as it is called in a virtual machine with this image alone, mode, uuid, name, offset and size in \
         bytes, usable bytes, sector_size, and file_system: null, or its kind, label, uuid, and its offset in the data",
    ),
    ("listing", "the JSON of ndctl list -RNDBu in that virtual machine"),
];

#[derive(Args, Debug)]
#[command(after_long_help = fields::help(SHOW_FIELDS))]
pub(crate) struct Show {
    /// The image
    file: PathBuf,
    /// Print the output of `ndctl list -RNDBu` in a virtual machine with this image alone
    #[arg(long)]
    ndctl: bool,
    #[command(flatten)]
    area: LabelAreaArgs,
}

impl Show {
    fn run(&self) -> Result<Output, Failure> {
        let what = "reading an image";
        let image = Image::open(&self.file, self.area.label_size).map_err(failed(what))?;
        let contents = image.contents().map_err(failed(what))?;
        let layout = image.layout();
        let file = self.file.display().to_string();
        let text = if self.ndctl {
            contents.listing.clone()
        } else {
            let labels =
                contents.version.map_or("no labels".to_owned(), |version| format!("labels {version}"));
            let slot = contents.slot.map_or(String::new(), |slot| format!(" for slot {}", slot.0));
            let head = format!("{file}: {} bytes of data, {labels}{slot}\n", layout.data_len);
            let foreign = contents.labels.iter().filter(|_| contents.slot.is_none());
            head + &contents
                .namespaces
                .iter()
                .map(namespace_line)
                .chain(foreign.map(label_line))
                .chain(contents.faults.iter().map(|fault| format!("  fault: {fault}\n")))
                .collect::<String>()
        };
        let output = Output::text(text).with("file", file).with("data_len", layout.data_len);
        let output = if contents.faults.is_empty() { output } else { output.with_exit_code(DAMAGED) };
        Ok(with_contents(output.with("label_len", layout.label_len), contents))
    }
}

fn with_contents(output: Output, contents: ImageContents) -> Output {
    let namespaces: Vec<Value> = contents.namespaces.iter().map(namespace_json).collect();
    let labels: Vec<Value> = contents.labels.iter().map(label_json).collect();
    output
        .with("version", contents.version.map(|version| version.to_string()))
        .with("labels", labels)
        .with("slot", contents.slot.map(|slot| slot.0))
        .with("faults", contents.faults.iter().map(ToString::to_string).collect::<Vec<_>>())
        .with("namespaces", namespaces)
        .with("listing", listing_value(&contents.listing))
}

/// Formats a label in human-readable form.
fn label_line((slot, label): &(u32, NamespaceLabel)) -> String {
    format!(
        "  label {slot}: {} \"{}\", module {} of {} in set {:#x}, {} bytes at {:#x}\n",
        label.uuid,
        one_line(&label.name.text()),
        label.position,
        label.label_count,
        label.set_cookie,
        label.raw_size,
        label.dpa
    )
}

fn label_json((slot, label): &(u32, NamespaceLabel)) -> Value {
    json!({
        "slot": slot,
        "uuid": label.uuid.to_string(),
        "name": label.name.text(),
        "set": label.set_cookie,
        "position": label.position,
        "count": label.label_count,
        "dpa": label.dpa,
        "size": label.raw_size,
    })
}

/// Formats a namespace in human-readable form.
fn namespace_line(one: &ImageNamespace) -> String {
    let namespace = &one.namespace;
    let mut text = format!(
        "  {} {} at {:#x}: {} bytes, {} for the user, sectors of {}",
        namespace.device(),
        namespace.mode().as_str(),
        namespace.offset,
        namespace.size,
        namespace.usable(),
        namespace.user_sector_size()
    );
    if let Some(uuid) = namespace.uuid {
        text += &format!(", {uuid}");
    }
    if !namespace.name.is_empty() {
        text += &format!(", \"{}\"", one_line(&namespace.name));
    }
    if let Some(found) = &one.file_system {
        text += &format!(", {} {}", found.kind, found.uuid);
        if !found.label.is_empty() {
            text += &format!(" \"{}\"", one_line(&found.label));
        }
    }
    text + "\n"
}

fn namespace_json(one: &ImageNamespace) -> Value {
    let namespace = &one.namespace;
    let file_system = one.file_system.as_ref().map(|found| {
        let uuid = found.uuid.to_string();
        json!({ "kind": found.kind, "label": found.label, "uuid": uuid, "offset": found.off })
    });
    json!({
        "dev": namespace.device(),
        "mode": namespace.mode().as_str(),
        "uuid": namespace.uuid.map(|uuid| uuid.to_string()),
        "name": namespace.name,
        "offset": namespace.offset,
        "size": namespace.size,
        "usable": namespace.usable(),
        "sector_size": namespace.user_sector_size(),
        "file_system": file_system,
    })
}

/// Runs long work with a progress bar of `len` bytes. SIGINT ends the work.
pub(super) fn with_progress<T>(
    what: &'static str,
    len: u64,
    interrupt: &Interrupt,
    work: impl FnOnce(&mut CopyProgress<'_>) -> Result<T, PlatformError>,
) -> Result<T, PlatformError> {
    let progress = Progress::of_bytes(what, len);
    let mut report = |bytes| {
        progress.add(bytes);
        if interrupt.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    work(&mut CopyProgress::new(&mut report))
}
