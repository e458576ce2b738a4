//! `lode platform df`.

use super::{MachineLocation, failed};
use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use clap::Args;
use lode_platform::image::FileSystem;
use lode_platform::machine::KernelVersion;
use lode_platform::{Mode, Namespace, Purpose, one_line};
use serde_json::{Value, json};

const FIELDS: &[(&str, &str)] = &[(
    "file_systems",
    "of each namespace with a file system its dev and blockdev, the kind, label and uuid of the file system, its total, \
     used and available bytes, null if unknown, and the mount options",
)];

const HELP: &str = "\
The numbers are those of `df -k` and `mount` once the file system is mounted under /mnt. XFS keeps a few thousand blocks \
more to itself while it is mounted for writing.";

/// First kernel that names the mode in the mount options.
const DAX_ALWAYS_SINCE: KernelVersion = KernelVersion { major: 5, minor: 8 };

/// Show the space that the file systems on namespaces offer, as df does
#[derive(Args, Debug)]
#[command(after_help = HELP, after_long_help = format!("{HELP}\n\n{}", fields::help(FIELDS)))]
pub(crate) struct Df {
    /// Names of namespaces [default: all with a file system]
    #[arg(value_name = "NAMESPACE")]
    names: Vec<String>,
    /// Print lines as of `mount` instead
    #[arg(long)]
    mounts: bool,
    #[command(flatten)]
    location: MachineLocation,
}

/// A file system that can be mounted.
struct Mountable {
    namespace: Namespace,
    device: String,
    found: FileSystem,
    options: &'static str,
}

pub(crate) fn run(df: &Df) -> Result<Output, Failure> {
    let what = "reading file systems";
    let directory = df.location.open(Purpose::ReadOnly)?;
    let platform = directory.platform();
    let regions = platform.regions();
    let enabled =
        regions.iter().filter(|region| region.enabled).flat_map(|region| platform.namespaces(region));
    let all = || enabled.map(|namespace| namespace.device()).collect();
    let names: Vec<String> = if df.names.is_empty() { all() } else { df.names.clone() };
    let mut mountables = Vec::new();
    for name in &names {
        let (namespace, found) = directory.file_system(name).map_err(failed(what))?;
        match (namespace.block_device(), found) {
            (Some(device), Some(found)) => {
                let options = match namespace.mode() {
                    Mode::Fsdax if platform.machine.profile.kernel >= DAX_ALWAYS_SINCE => {
                        "rw,relatime,dax=always"
                    }
                    Mode::Fsdax => "rw,relatime,dax",
                    _ => "rw,relatime",
                };
                mountables.push(Mountable { namespace, device, found, options });
            }
            _ if df.names.is_empty() => {}
            _ => {
                let why = format!("{name} has no ext4 and no XFS; make one with `lode platform mkfs`");
                return Err(Failure::new(what, why));
            }
        }
    }
    let text = if df.mounts { mount_lines(&mountables) } else { table(&mountables) };
    let file_systems: Vec<Value> = mountables.iter().map(Mountable::json).collect();
    Ok(Output::text(text).with("file_systems", file_systems))
}

impl Mountable {
    fn json(&self) -> Value {
        let space = self.found.space;
        json!({
            "dev": self.namespace.device(),
            "blockdev": self.device,
            "kind": self.found.kind,
            "label": self.found.label,
            "uuid": self.found.uuid.to_string(),
            "total": space.map(|space| space.total),
            "used": space.map(|space| space.total - space.free),
            "available": space.map(|space| space.available),
            "options": self.options,
        })
    }

    /// Returns the cells of the table.
    fn row(&self) -> [String; 6] {
        let kib = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |bytes| (bytes >> 10).to_string());
        let space = self.found.space;
        let used = space.map(|space| space.total - space.free);
        let percent = space.and_then(|space| {
            let used = u128::from(space.total - space.free);
            let all = used + u128::from(space.available);
            (all > 0).then(|| (used * 100).div_ceil(all))
        });
        [
            format!("/dev/{}", self.device),
            kib(space.map(|space| space.total)),
            kib(used),
            kib(space.map(|space| space.available)),
            percent.map_or("-".to_owned(), |percent| format!("{percent}%")),
            format!("/mnt/{}", self.device),
        ]
    }
}

fn mount_lines(mountables: &[Mountable]) -> String {
    let line = |one: &Mountable| {
        let (device, kind) = (&one.device, one_line(one.found.kind));
        format!("/dev/{device} on /mnt/{device} type {kind} ({})\n", one.options)
    };
    mountables.iter().map(line).collect()
}

/// Formats the table of df.
fn table(mountables: &[Mountable]) -> String {
    let head = ["Filesystem", "1K-blocks", "Used", "Available", "Use%", "Mounted on"].map(str::to_owned);
    let rows: Vec<[String; 6]> = [head].into_iter().chain(mountables.iter().map(Mountable::row)).collect();
    let width =
        |column: usize, least: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0).max(least);
    // df gives the device at least 14 columns, and the numbers 5.
    let [device, total, used, available, percent] =
        [(0, 14), (1, 5), (2, 5), (3, 5), (4, 4)].map(|(at, least)| width(at, least));
    let line = |[name, all, some, rest, part, place]: &[String; 6]| {
        format!("{name:device$} {all:>total$} {some:>used$} {rest:>available$} {part:>percent$} {place}\n")
    };
    rows.iter().map(line).collect()
}
