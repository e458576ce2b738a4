//! `lode ndctl create-namespace`, `destroy-namespace` and the like.

use super::{counted, number, printed};
use crate::answer::Answer;
use crate::failure::Failure;
use crate::platform::{Place, failed};
use crate::size;
use clap::{Args, ValueEnum};
use lode_platform::{CreateNamespace, MapPlace, Mode, Purpose};
use uuid::Uuid;

/// What is made of a namespace, in ndctl's words.
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
    /// As it is
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

/// Where a page map is, in ndctl's words.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum MapWord {
    /// In DRAM
    Mem,
    /// In the namespace
    Dev,
}

/// What kind of namespace it is.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypeWord {
    /// Memory that is mapped
    Pmem,
}

#[derive(Args, Debug)]
pub(super) struct Create {
    /// In this region; without it, in the first with enough space
    #[arg(short, long, value_name = "REGION")]
    region: Option<String>,
    /// What to make of it [default: fsdax]
    #[arg(short, long, value_name = "MODE")]
    mode: Option<ModeWord>,
    /// Bytes, or with K, M, G or T; without it, the largest free range
    #[arg(short, long, value_parser = size::parse)]
    size: Option<u64>,
    /// The kind of namespace
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<TypeWord>,
    /// Where its page map is [default: dev]
    #[arg(short = 'M', long, value_name = "PLACE")]
    map: Option<MapWord>,
    /// Bytes of a sector
    #[arg(short = 'l', long, value_name = "SIZE", value_parser = size::parse)]
    sector_size: Option<u64>,
    /// What mappings are aligned to: 4K, 2M or 1G
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    align: Option<u64>,
    /// What to call it
    #[arg(short, long, default_value = "")]
    name: String,
    /// Who it is; without it, somebody new
    #[arg(short, long)]
    uuid: Option<Uuid>,
    /// Make something else of this namespace; its data is not kept
    #[arg(short = 'e', long, value_name = "NAMESPACE")]
    reconfig: Option<String>,
    /// Though it is in use
    #[arg(short, long)]
    force: bool,
    /// Print nothing more: taken for ndctl's sake
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
            let Some(old) = &self.reconfig else { return platform.create_namespace(&wanted, &mut uuids) };
            if self.mode.is_none() {
                wanted.mode = platform.namespace(old)?.1.mode();
            }
            platform.reconfigure_namespace(old, &wanted, self.force, &mut uuids)
        });
        let made = made.map_err(failed("making a namespace"))?;
        Ok(printed(directory.platform().describe_namespace(&made)))
    }
}

#[derive(Args, Debug)]
pub(super) struct Destroy {
    /// Their names, or all
    #[arg(required = true, value_name = "NAMESPACE")]
    names: Vec<String>,
    /// Only those of this region
    #[arg(short, long, value_name = "REGION")]
    region: Option<String>,
    /// Though they are in use
    #[arg(short, long)]
    force: bool,
}

impl Destroy {
    pub(super) fn run(&self, place: &Place) -> Result<Answer, Failure> {
        let region = self.region.as_ref().map(|region| number(region, "region")).transpose()?;
        let mut directory = place.open(Purpose::Change)?;
        let change = directory.change(|platform| {
            let names = resolved(&self.names, || platform.labelled_namespaces(region));
            for name in &names {
                platform.destroy_namespace(name, self.force)?;
            }
            Ok(names.len())
        });
        Ok(counted("destroyed", change.map_err(failed("unmaking a namespace"))?, "namespace"))
    }
}

#[derive(Args, Debug)]
pub(super) struct Names {
    /// Their names, or all
    #[arg(required = true, value_name = "NAMESPACE")]
    names: Vec<String>,
}

impl Names {
    pub(super) fn switch(&self, place: &Place, enable: bool) -> Result<Answer, Failure> {
        let mut directory = place.open(Purpose::Change)?;
        let change = directory.change(|platform| {
            let mut switched = 0;
            for name in resolved(&self.names, || platform.labelled_namespaces(None)) {
                switched += usize::from(platform.enable_namespace(&name, enable)?);
            }
            Ok(switched)
        });
        let done = if enable { "enabled" } else { "disabled" };
        Ok(counted(done, change.map_err(failed("switching a namespace"))?, "namespace"))
    }

    pub(super) fn check(&self, place: &Place) -> Result<Answer, Failure> {
        let directory = place.open(Purpose::Look)?;
        let names = resolved(&self.names, || directory.platform().labelled_namespaces(None));
        for name in &names {
            directory.check_namespace(name).map_err(failed("checking a namespace"))?;
        }
        Ok(counted("checked", names.len(), "namespace"))
    }
}

/// The names, with those of all namespaces for `all`.
fn resolved(names: &[String], all: impl Fn() -> Vec<String>) -> Vec<String> {
    names.iter().flat_map(|name| if name == "all" { all() } else { vec![name.clone()] }).collect()
}
