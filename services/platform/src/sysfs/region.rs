//! Regions.

use super::{bad_blocks, namespace};
use crate::machine::PersistenceDomain;
use crate::ndctl::{NdCapabilities, NdMapping, NdRegion};
use lode_pmem::SysfsFolder;

/// The kernel's `nstype` of regions whose namespaces have labels.
const WITH_LABELS: u64 = 5;

/// Reads the region regionN from its folder.
pub(super) fn read(number: u32, folder: &SysfsFolder) -> NdRegion {
    let mappings = mappings(folder);
    // The modules of a bad range are known only if the region has one module.
    let modules = match mappings.as_slice() {
        [one] => vec![one.module],
        _ => Vec::new(),
    };
    let has_labels = folder.number("nstype") == Some(WITH_LABELS);
    // A region without labels is one namespace, independent of its modules.
    let free = |name| if has_labels { folder.number(name) } else { Some(0) };
    NdRegion {
        number,
        base: folder.number("resource"),
        size: folder.number("size"),
        align: folder.number("align"),
        available: free("available_size"),
        largest_available: free("max_available_extent"),
        numa_node: folder.non_negative("numa_node"),
        target_node: folder.non_negative("target_node"),
        has_labels,
        set_id: folder.number("set_cookie"),
        line: None,
        mappings,
        enabled: folder.driver().is_some(),
        read_only: folder.number("read_only") == Some(1),
        persistence_domain: domain(folder.text("persistence_domain").as_deref()).as_str(),
        capabilities: capabilities(folder),
        bad_blocks: bad_blocks::read(folder, &modules),
        seed: seed(folder),
        namespaces: namespace::all(folder),
    }
}

fn seed(folder: &SysfsFolder) -> Option<u32> {
    folder.text("namespace_seed")?.split_once('.')?.1.parse().ok()
}

fn domain(word: Option<&str>) -> PersistenceDomain {
    match word {
        Some("cpu_cache") => PersistenceDomain::CpuCache,
        Some("memory_controller") => PersistenceDomain::MemoryController,
        _ => PersistenceDomain::Unknown,
    }
}

/// Reads the parts on modules: lines of module, offset, length and position.
fn mappings(folder: &SysfsFolder) -> Vec<NdMapping> {
    let count = folder.number("mappings").unwrap_or(0);
    let mapping = |number| {
        let text = folder.text(&format!("mapping{number}"))?;
        let mut words = text.split(',');
        Some(NdMapping {
            module: words.next()?.strip_prefix("nmem")?.parse().ok()?,
            offset: words.next()?.parse().ok()?,
            length: words.next()?.parse().ok()?,
            position: words.next().and_then(|word| word.parse().ok()),
        })
    };
    (0..count).filter_map(mapping).collect()
}

/// Reads the parameters of new namespaces from the region's seeds.
fn capabilities(folder: &SysfsFolder) -> Option<NdCapabilities> {
    let seed = |name| folder.text(name).filter(|seed| !seed.is_empty()).map(|seed| folder.folder(seed));
    let (btt, pfn, dax) = (seed("btt_seed")?, seed("pfn_seed")?, seed("dax_seed")?);
    Some(NdCapabilities {
        sector_sizes: btt.numbers("sector_size").unwrap_or_default(),
        fsdax_alignments: pfn.numbers("supported_alignments").unwrap_or_default(),
        devdax_alignments: dax.numbers("supported_alignments").unwrap_or_default(),
    })
}
