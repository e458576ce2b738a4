//! Namespaces, with their page maps and BTTs.

use super::{bad_blocks, dax};
use crate::namespace::MapLocation;
use crate::ndctl::{NdNamespace, NdPageMap, NdPersonality};
use lode_pmem::SysfsFolder;
use uuid::Uuid;

/// Default sector size in bytes.
const SECTOR_SIZE: u64 = 512;
/// The kernel's `nstype` of namespaces that are whole regions without labels.
const WITHOUT_LABELS: u64 = 4;

/// Reads the namespaces of the region in this folder.
pub(super) fn all(region: &SysfsFolder) -> Vec<NdNamespace> {
    let found = region.numbered_pairs("namespace").into_iter();
    found.map(|(of, number, folder)| read(region, of, number, &folder)).collect()
}

fn read(region: &SysfsFolder, of: u32, number: u32, folder: &SysfsFolder) -> NdNamespace {
    let holder = folder.text("holder").filter(|holder| !holder.is_empty());
    let holder = holder.map(|name| region.folder(name));
    // A page map or BTT owns the block device, and has an address of its own.
    let top = holder.as_ref().unwrap_or(folder);
    let personality = personality(folder, holder.as_ref());
    let is_sector = matches!(personality, NdPersonality::Sector { .. });
    let in_memory = if is_sector { folder } else { top };
    let block_device = top.folder("block").names().into_iter().next();
    let labelled = folder.number("nstype") != Some(WITHOUT_LABELS);
    let sector_size = match &personality {
        NdPersonality::Devdax(..) => None,
        NdPersonality::Sector { .. } => top.selected("sector_size"),
        _ => Some(folder.selected("sector_size").filter(|size| *size > 0).unwrap_or(SECTOR_SIZE)),
    };
    NdNamespace {
        personality,
        size: top.number("size"),
        span: folder.number("size"),
        uuid: labelled.then(|| uuid(folder)),
        sector_size,
        bad_blocks: block_device
            .as_ref()
            .map_or(Vec::new(), |device| bad_blocks::read(&top.folder("block").folder(device), &[])),
        block_device,
        name: folder.text("alt_name").unwrap_or_default(),
        enabled: folder.driver().or_else(|| holder.as_ref()?.driver()).is_some(),
        numa_node: folder.non_negative("numa_node"),
        target_node: folder.non_negative("target_node"),
        base: folder.number("resource"),
        place: in_memory.number("resource").zip(in_memory.number("size")),
        ..NdNamespace::new(of, number)
    }
}

fn personality(folder: &SysfsFolder, holder: Option<&SysfsFolder>) -> NdPersonality {
    let mode = folder.text("mode").unwrap_or_default();
    match (mode.as_str(), holder) {
        ("memory", None) => NdPersonality::Legacy,
        ("memory", Some(holder)) => NdPersonality::Fsdax(page_map(holder)),
        ("dax", Some(holder)) => NdPersonality::Devdax(page_map(holder), dax::region(holder)),
        ("safe", Some(holder)) => NdPersonality::Sector { uuid: uuid(holder) },
        _ => NdPersonality::Raw,
    }
}

fn page_map(folder: &SysfsFolder) -> NdPageMap {
    let location = match folder.text("mode").as_deref() {
        Some("ram") => Some(MapLocation::Mem),
        Some("pmem") => Some(MapLocation::Dev),
        _ => None,
    };
    NdPageMap { uuid: uuid(folder), location, align: folder.number("align") }
}

/// Returns the UUID; nil if the device is not configured.
fn uuid(folder: &SysfsFolder) -> Uuid {
    folder.text("uuid").and_then(|text| text.parse().ok()).unwrap_or_default()
}
