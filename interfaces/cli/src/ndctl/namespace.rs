//! `lode ndctl create-namespace`, `destroy-namespace` and the like.

use super::{counted, number, printed};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::platform::{Place, failed};
use crate::size;
use clap::{Args, ValueEnum};
use lode_platform::namespace::{self, NamespaceError};
use lode_platform::{CreateNamespace, MapPlace, Mode, Purpose, ndctl};
use uuid::Uuid;

/// Mode of a namespace, in ndctl's words.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ModeWord {
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

impl ModeWord {
    pub(super) fn mode(self) -> Mode {
        match self {
            ModeWord::Fsdax => Mode::Fsdax,
            ModeWord::Devdax => Mode::Devdax,
            ModeWord::Sector => Mode::Sector,
            ModeWord::Raw => Mode::Raw,
        }
    }
}

/// Place of a page map, in ndctl's words.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum MapWord {
    /// In DRAM
    Mem,
    /// In the namespace
    Dev,
}

/// Kind of a namespace, in ndctl's words.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypeWord {
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
    mode: Option<ModeWord>,
    /// Size in bytes, or with K, M, G or T [default: the largest free range]
    #[arg(short, long, value_parser = size::parse)]
    size: Option<u64>,
    /// Kind of the namespace
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<TypeWord>,
    /// Place of the page map [default: dev]
    #[arg(short = 'M', long, value_name = "PLACE")]
    map: Option<MapWord>,
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
    /// Accepted for compatibility with ndctl; without effect
    #[arg(short, long)]
    verbose: bool,
}

impl Create {
    pub(super) fn run(&self, place: &Place) -> Result<Answer, Failure> {
        let region = self.region.as_ref().filter(|region| *region != "all");
        let region = region.map(|region| number(region, "region")).transpose()?;
        let mut wanted = CreateNamespace {
            region,
            mode: self.mode.map_or(Mode::Fsdax, ModeWord::mode),
            size: self.size,
            map: if matches!(self.map, Some(MapWord::Mem)) { MapPlace::Mem } else { MapPlace::Dev },
            align: self.align,
            sector_size: self.sector_size,
            name: self.name.clone(),
            uuid: self.uuid,
        };
        let mut directory = place.open(Purpose::Change)?;
        let made = directory.change(|platform| {
            let mut uuids = Uuid::new_v4;
            let Some(old) = &self.reconfig else { return namespace::create(platform, &wanted, &mut uuids) };
            if self.mode.is_none() {
                wanted.mode = platform.namespace(old)?.1.mode();
            }
            namespace::reconfigure(platform, old, &wanted, self.force, &mut uuids)
        });
        let made = made.map_err(failed("making a namespace"))?;
        Ok(printed(ndctl::describe(directory.platform(), &made)))
    }
}

#[derive(Args, Debug)]
pub(super) struct Destroy {
    /// Names of namespaces, or all
    #[arg(required = true, value_name = "NAMESPACE")]
    names: Vec<String>,
    /// Only namespaces of this region
    #[arg(short, long, value_name = "REGION")]
    region: Option<String>,
    /// Destroy namespaces even if they are in use
    #[arg(short, long)]
    force: bool,
}

impl Destroy {
    pub(super) fn run(&self, place: &Place) -> Result<Answer, Failure> {
        let region = self.region.as_ref().map(|region| number(region, "region")).transpose()?;
        let mut directory = place.open(Purpose::Change)?;
        let change = directory.change(|platform| {
            let names = resolved(&self.names, || namespace::labelled_names(platform, region));
            for name in &names {
                namespace::destroy(platform, name, self.force)?;
            }
            Ok::<_, NamespaceError>(names.len())
        });
        Ok(counted("destroyed", change.map_err(failed("unmaking a namespace"))?, "namespace"))
    }
}

#[derive(Args, Debug)]
pub(super) struct Names {
    /// Names of namespaces, or all
    #[arg(required = true, value_name = "NAMESPACE")]
    names: Vec<String>,
}

impl Names {
    pub(super) fn switch(&self, place: &Place, enable: bool) -> Result<Answer, Failure> {
        let mut directory = place.open(Purpose::Change)?;
        let change = directory.change(|platform| {
            let mut switched = 0;
            for name in resolved(&self.names, || namespace::labelled_names(platform, None)) {
                switched += usize::from(namespace::enable(platform, &name, enable)?);
            }
            Ok::<_, NamespaceError>(switched)
        });
        let done = if enable { "enabled" } else { "disabled" };
        Ok(counted(done, change.map_err(failed("switching a namespace"))?, "namespace"))
    }

    pub(super) fn check(&self, place: &Place) -> Result<Answer, Failure> {
        let directory = place.open(Purpose::Look)?;
        let names = resolved(&self.names, || namespace::labelled_names(directory.platform(), None));
        for name in &names {
            directory.check_namespace(name).map_err(failed("checking a namespace"))?;
        }
        Ok(counted("checked", names.len(), "namespace"))
    }
}

/// Returns the names, with `all` replaced by the names of all namespaces.
fn resolved(names: &[String], all: impl Fn() -> Vec<String>) -> Vec<String> {
    names.iter().flat_map(|name| if name == "all" { all() } else { vec![name.clone()] }).collect()
}
