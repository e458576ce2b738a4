//! The durability of a medium, and the evidence for it.

use crate::Durability;
use std::fmt;

/// The durability of a medium, and the evidence for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurabilityReport {
    /// The durability.
    pub durability: Durability,
    /// Evidence for the durability.
    pub how: DurabilityEvidence,
    /// Warning for the user, if the durability is doubtful.
    pub warning: Option<DurabilityWarning>,
}

/// Evidence for a durability.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurabilityEvidence {
    /// A file on a DAX file system: the kernel accepted MAP_SYNC. Lists the persistent memory below it.
    MapSync(Vec<Backing>),
    /// A device-DAX node on persistent memory, and that memory.
    DeviceDax(Vec<Backing>),
    /// The kernel refused MAP_SYNC: the file is in the page cache, or its device needs a sync (virtio-pmem).
    MapSyncRefused,
    /// A file system that keeps its files in memory.
    VolatileFileSystem {
        /// Name of the file system.
        name: &'static str,
    },
    /// A device-DAX node that no nd region backs: dax_hmem, or volatile CXL memory.
    VolatileDevice {
        /// Name of the device.
        name: String,
    },
    /// Memory without a file.
    Anonymous,
    /// A private view: its stores never reach the medium.
    PrivateView,
    /// The user asked for this durability by name.
    Forced {
        /// The report without the user's choice.
        found: Box<DurabilityReport>,
    },
}

/// A piece of persistent memory below a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// Name of the nd region, or of the block device if there is no region.
    pub name: String,
    /// The region's `persistence_domain`; `None` if the kernel does not know it.
    pub domain: Option<String>,
    /// True if the kernel treats the region as read-only. It does so when a module has no energy to save its data. Even
    /// then it maps a device-DAX node for writing.
    pub read_only: bool,
}

/// Warnings about a durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurabilityWarning {
    /// The kernel does not report what survives power loss. This is so for plain memory given as `memmap=`, and in most
    /// virtual machines.
    DomainUnknown,
    /// The forced durability promises more than the medium is known to keep.
    ForcedAbove,
}

impl DurabilityReport {
    /// Returns the durability of memory that the kernel maps directly. The weakest of the memories below decides. A
    /// read-only region keeps no stores.
    pub(crate) fn of_direct(
        backing: Vec<Backing>,
        how: fn(Vec<Backing>) -> DurabilityEvidence,
    ) -> DurabilityReport {
        let known = |backing: &Backing| backing.domain.as_deref().is_some_and(|domain| domain != "unknown");
        let all_cached = backing.iter().all(|backing| backing.domain.as_deref() == Some("cpu_cache"));
        let all_known = !backing.is_empty() && backing.iter().all(known);
        let durability = match () {
            () if backing.iter().any(|backing| backing.read_only) => Durability::None,
            () if all_known && all_cached => Durability::Byte,
            () => Durability::Line,
        };
        DurabilityReport {
            durability,
            how: how(backing),
            warning: (!all_known).then_some(DurabilityWarning::DomainUnknown),
        }
    }

    /// Returns a report without a warning.
    pub(crate) fn plain(durability: Durability, how: DurabilityEvidence) -> DurabilityReport {
        DurabilityReport { durability, how, warning: None }
    }

    /// Returns a report with the user's `durability` in place of the durability that was found.
    pub(crate) fn forced(self, durability: Durability) -> DurabilityReport {
        let warning = (durability > self.durability).then_some(DurabilityWarning::ForcedAbove);
        DurabilityReport { durability, how: DurabilityEvidence::Forced { found: Box::new(self) }, warning }
    }
}

impl fmt::Display for DurabilityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.durability, self.how)?;
        self.warning.map_or(Ok(()), |warning| write!(f, "; warning: {warning}"))
    }
}

impl fmt::Display for DurabilityEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DurabilityEvidence::MapSync(backing) => {
                f.write_str("MAP_SYNC accepted")?;
                write_domains(f, backing)
            }
            DurabilityEvidence::DeviceDax(backing) => {
                f.write_str("device-DAX")?;
                write_domains(f, backing)
            }
            DurabilityEvidence::MapSyncRefused => {
                f.write_str("MAP_SYNC refused, the file is in the page cache")
            }
            DurabilityEvidence::VolatileFileSystem { name } => f.write_str(name),
            DurabilityEvidence::VolatileDevice { name } => write!(f, "{name} is on no nd region"),
            DurabilityEvidence::Anonymous => f.write_str("anonymous memory"),
            DurabilityEvidence::PrivateView => f.write_str("private view"),
            DurabilityEvidence::Forced { found } => write!(f, "forced, found {found}"),
        }
    }
}

fn write_domains(f: &mut fmt::Formatter<'_>, backing: &[Backing]) -> fmt::Result {
    for backing in backing {
        let domain = backing.domain.as_deref().unwrap_or("unknown");
        write!(f, ", persistence_domain of {} is {domain}", backing.name)?;
        if backing.read_only {
            write!(f, ", {} is read-only and may not keep what is stored", backing.name)?;
        }
    }
    Ok(())
}

impl fmt::Display for DurabilityWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DurabilityWarning::DomainUnknown => {
                "persistence domain unknown, power loss may take what was drained"
            }
            DurabilityWarning::ForcedAbove => "the medium is not known to keep this promise",
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn backing(domains: &[Option<&str>]) -> Vec<Backing> {
        let named = |(index, domain): (usize, &Option<&str>)| Backing {
            read_only: false,
            name: format!("region{index}"),
            domain: domain.map(str::to_owned),
        };
        domains.iter().enumerate().map(named).collect()
    }

    #[test]
    fn weakest_persistence_domain_decides() {
        let (cache, controller) = (Some("cpu_cache"), Some("memory_controller"));
        for (domains, durability, sure) in [
            (&[cache][..], Durability::Byte, true),
            (&[cache, cache], Durability::Byte, true),
            (&[cache, controller], Durability::Line, true),
            (&[controller], Durability::Line, true),
            (&[cache, None], Durability::Line, false),
            (&[None], Durability::Line, false),
            (&[Some("unknown")], Durability::Line, false),
            (&[], Durability::Line, false),
        ] {
            let report = DurabilityReport::of_direct(backing(domains), DurabilityEvidence::MapSync);
            assert_eq!((report.durability, report.warning.is_none()), (durability, sure), "{domains:?}");
        }
    }

    #[test]
    fn read_only_backing_is_not_durable() {
        let mut regions = backing(&[Some("cpu_cache"), Some("memory_controller")]);
        regions[1].read_only = true;
        let report = DurabilityReport::of_direct(regions, DurabilityEvidence::DeviceDax);
        assert_eq!(
            report.to_string(),
            "none: device-DAX, persistence_domain of region0 is cpu_cache, persistence_domain of region1 is \
             memory_controller, region1 is read-only and may not keep what is stored"
        );
    }

    #[test]
    fn reports_name_the_reason() {
        let report =
            DurabilityReport::of_direct(backing(&[Some("memory_controller")]), DurabilityEvidence::MapSync);
        assert_eq!(
            report.to_string(),
            "line: MAP_SYNC accepted, persistence_domain of region0 is memory_controller"
        );
        let unknown = DurabilityReport::of_direct(backing(&[None]), DurabilityEvidence::DeviceDax);
        assert_eq!(
            unknown.to_string(),
            "line: device-DAX, persistence_domain of region0 is unknown; warning: persistence domain unknown, \
             power loss may take what was drained"
        );
        let tmpfs = DurabilityReport::plain(
            Durability::None,
            DurabilityEvidence::VolatileFileSystem { name: "tmpfs" },
        );
        assert_eq!(tmpfs.to_string(), "none: tmpfs");
        assert_eq!(
            tmpfs.forced(Durability::Line).to_string(),
            "line: forced, found none: tmpfs; warning: the medium is not known to keep this promise"
        );
        assert_eq!(report.forced(Durability::Commit).warning, None);
    }
}
