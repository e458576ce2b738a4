//! `lode ndctl create-namespace`, `destroy-namespace` and the like.

use super::base::{BaseOptions, NamespaceFilter};
use super::{count_output, count_text, listing_output, listing_value, number};
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use crate::size;
use clap::{Args, ValueEnum};
use lode_platform::namespace::{self, NamespaceError};
use lode_platform::{CreateNamespace, Directory, MapLocation, Mode, PlatformError, Purpose, ndctl};
use uuid::Uuid;

/// The step that fails if no namespace can be created.
const CREATING: &str = "creating a namespace";

/// The value of `--mode`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ModeOption {
    /// For file systems that map files
    #[value(alias = "memory")]
    Fsdax,
    /// A character device that is mapped
    #[value(alias = "dax")]
    Devdax,
    /// Atomic sectors
    #[value(alias = "safe")]
    Sector,
    /// The memory as it is, without metadata
    Raw,
}

impl ModeOption {
    pub(super) fn mode(self) -> Mode {
        match self {
            ModeOption::Fsdax => Mode::Fsdax,
            ModeOption::Devdax => Mode::Devdax,
            ModeOption::Sector => Mode::Sector,
            ModeOption::Raw => Mode::Raw,
        }
    }
}

/// The value of `--map`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum MapOption {
    /// In DRAM
    Mem,
    /// In the namespace
    Dev,
}

impl MapOption {
    pub(super) fn location(self) -> MapLocation {
        match self {
            MapOption::Mem => MapLocation::Mem,
            MapOption::Dev => MapLocation::Dev,
        }
    }
}

/// The value of `--type`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypeOption {
    /// Memory that is mapped
    Pmem,
}

#[derive(Args, Debug)]
pub(super) struct Create {
    /// Region of the namespace [default: the first with enough space]
    #[arg(short, long, value_name = "REGION")]
    region: Option<String>,
    /// Mode of the namespace [default: fsdax]
    #[arg(short, long, value_name = "MODE")]
    mode: Option<ModeOption>,
    /// Size in bytes, or with K, M, G or T [default: the largest free range]
    #[arg(short, long, value_parser = size::parse)]
    size: Option<u64>,
    /// Kind of the namespace
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<TypeOption>,
    /// Place of the page map [default: dev]
    #[arg(short = 'M', long, value_name = "PLACE")]
    map: Option<MapOption>,
    /// Size of a sector in bytes
    #[arg(short = 'l', long, value_name = "SIZE", value_parser = size::parse)]
    sector_size: Option<u64>,
    /// Alignment of mappings: 4K, 2M or 1G
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    align: Option<u64>,
    /// Name of the namespace
    #[arg(short, long, default_value = "")]
    name: String,
    /// UUID of the namespace [default: random]
    #[arg(short, long)]
    uuid: Option<Uuid>,
    /// Reconfigure this namespace; its data is not kept
    #[arg(short = 'e', long, value_name = "NAMESPACE")]
    reconfig: Option<String>,
    /// Reconfigure the namespace even if it is in use
    #[arg(short, long)]
    force: bool,
    /// Create a namespace in each region that has the space, up to the first failure; with -f up to the last region
    #[arg(short = 'c', long = "continue")]
    greedy: bool,
    /// Give a region without labels labels before its namespace is reconfigured, if its modules have label areas; the
    /// default
    #[arg(short = 'L', long, overrides_with = "no_autolabel")]
    autolabel: bool,
    /// Only change the mode of the namespace of a region without labels
    #[arg(long, overrides_with = "autolabel")]
    no_autolabel: bool,
    /// Accepted for compatibility with ndctl: a namespace that can't be created leaves nothing
    #[arg(short = 'R', long, overrides_with = "no_autorecover")]
    autorecover: bool,
    /// Accepted for compatibility with ndctl; without effect
    #[arg(long, overrides_with = "autorecover")]
    no_autorecover: bool,
    #[command(flatten)]
    base: BaseOptions,
}

impl Create {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let region = self.region.as_ref().filter(|region| *region != "all");
        let region = region.map(|region| number(region, "region")).transpose()?;
        let mut wanted = CreateNamespace {
            region,
            mode: self.mode.map_or(Mode::Fsdax, ModeOption::mode),
            size: self.size,
            map: self.map.map(MapOption::location).unwrap_or_default(),
            align: self.align,
            sector_size: self.sector_size,
            name: self.name.clone(),
            uuid: self.uuid,
        };
        let mut directory = location.open(Purpose::Change)?;
        let on_buses = self.base.regions(directory.platform())?;
        if self.reconfig.is_none() && (self.greedy || self.base.is_limited()) {
            let mut regions = namespace::candidates(directory.platform());
            regions.retain(|one| on_buses.contains(one) && region.is_none_or(|region| region == *one));
            return self.create_in(&mut directory, &regions, &wanted);
        }
        let made = directory.change(|platform| {
            let mut uuids = Uuid::new_v4;
            let Some(old) = &self.reconfig else { return namespace::create(platform, &wanted, &mut uuids) };
            if self.mode.is_none() {
                wanted.mode = platform.namespace(old)?.1.mode();
            }
            namespace::reconfigure(platform, old, &wanted, self.force, !self.no_autolabel, &mut uuids)
        });
        let made = made.map_err(failed(CREATING))?;
        Ok(listing_output("", &ndctl::describe(directory.platform(), &made)))
    }

    /// Creates a namespace in the first of the regions that takes it, or in each with `--continue`. A namespace that
    /// was created stays if a later one fails.
    fn create_in(
        &self,
        directory: &mut Directory,
        regions: &[u32],
        wanted: &CreateNamespace,
    ) -> Result<Output, Failure> {
        let (mut listed, mut failures, mut full) = (Vec::new(), Vec::new(), None);
        for region in regions {
            let wanted = CreateNamespace { region: Some(*region), ..wanted.clone() };
            match directory.change(|platform| namespace::create(platform, &wanted, &mut Uuid::new_v4)) {
                Ok(made) => {
                    listed.push(ndctl::describe(directory.platform(), &made));
                    if !self.greedy {
                        break;
                    }
                }
                Err(PlatformError::Namespace(error)) if error.is_of_region() => {
                    full.get_or_insert_with(|| failed(CREATING)(error));
                }
                Err(error) => {
                    failures.push(failed(CREATING)(error));
                    if !(self.greedy && self.force) {
                        break;
                    }
                }
            }
        }
        if listed.is_empty() && failures.is_empty() {
            let none =
                || Failure::new(CREATING, "the selection has no region; `lode ndctl list -R` lists them");
            failures.push(full.unwrap_or_else(none));
        }
        let count =
            if self.greedy { count_text("created", listed.len(), "namespace") } else { String::new() };
        let text = listed.concat() + &count;
        let values: Vec<_> = listed.iter().map(|object| listing_value(object)).collect();
        match (Failure::join(failures), values.as_slice()) {
            (Some(failure), _) => Err(failure.after(text)),
            (None, [one]) if !self.greedy => Ok(Output::text(text).with("output", one.clone())),
            (None, _) => Ok(Output::text(text).with("output", values)),
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct Destroy {
    /// Names of namespaces, or all
    #[arg(required = true, value_name = "NAMESPACE")]
    names: Vec<String>,
    /// Destroy namespaces even if they are in use
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    filter: NamespaceFilter,
}

impl Destroy {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let mut directory = location.open(Purpose::Change)?;
        let names = self.filter.labelled(directory.platform(), &self.names)?;
        let change = directory.change(|platform| {
            for name in &names {
                namespace::destroy(platform, name, self.force)?;
            }
            Ok::<_, NamespaceError>(names.len())
        });
        Ok(count_output("destroyed", change.map_err(failed("destroying a namespace"))?, "namespace"))
    }
}

#[derive(Args, Debug)]
pub(super) struct NamespaceNames {
    /// Names of namespaces, or all
    #[arg(required = true, value_name = "NAMESPACE")]
    names: Vec<String>,
    #[command(flatten)]
    filter: NamespaceFilter,
}

impl NamespaceNames {
    pub(super) fn set_enabled(&self, location: &MachineLocation, enable: bool) -> Result<Output, Failure> {
        let mut directory = location.open(Purpose::Change)?;
        let names = self.filter.labelled(directory.platform(), &self.names)?;
        let change = directory.change(|platform| {
            // Like ndctl, counts those that were so before.
            names.iter().try_for_each(|name| namespace::enable(platform, name, enable).map(drop))?;
            Ok::<_, NamespaceError>(names.len())
        });
        let done = if enable { "enabled" } else { "disabled" };
        Ok(count_output(done, change.map_err(failed("enabling or disabling a namespace"))?, "namespace"))
    }
}

#[derive(Args, Debug)]
pub(super) struct Check {
    /// Names of namespaces, or all
    #[arg(required = true, value_name = "NAMESPACE")]
    names: Vec<String>,
    /// Check namespaces even if they are enabled
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    filter: NamespaceFilter,
}

impl Check {
    /// Checks each namespace, also after one that fails.
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let directory = location.open(Purpose::ReadOnly)?;
        let platform = directory.platform();
        let names = self.filter.labelled(platform, &self.names)?;
        let what = "checking a namespace";
        let (mut checked, mut failures) = (0, Vec::new());
        for name in &names {
            let online = platform.namespace(name).is_ok_and(|(_, namespace)| namespace.enabled);
            if online && !self.force {
                let why = format!("{name}: check aborted, namespace online; disable it first, or use -f");
                failures.push(Failure::new(what, why));
                continue;
            }
            match directory.check_namespace(name) {
                Ok(_) => checked += 1,
                Err(error) => failures.push(failed(what)(error)),
            }
        }
        let output = count_output("checked", checked, "namespace");
        Failure::join(failures)
            .map_or(Ok(output), |failure| Err(failure.after(count_text("checked", checked, "namespace"))))
    }
}
