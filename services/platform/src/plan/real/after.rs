//! A real machine as its kernel would show it after a plan.

use crate::discovery::Shown;
use crate::namespace::Mode;
use crate::ndctl::{NdBus, NdNamespace, NdPageMap, NdPersonality, NdRegion};
use crate::plan::sequence::Plan;
use crate::plan::step::Step;
use crate::plan::table::{Row, Usage};
use uuid::Uuid;

impl Plan {
    /// Returns the machine as its kernel would show it after the plan. New namespaces have no addresses: the kernel
    /// chooses them.
    pub fn after(&self, shown: &Shown) -> Shown {
        let mut after = shown.clone();
        let created = |row: &&Row| {
            let is_step = |step: &Step| matches!(step, Step::CreateNamespace { name, .. } if name == row.usage.as_str());
            self.steps.iter().any(is_step)
        };
        for step in &self.steps {
            let regions = after.inventory.buses.iter_mut().flat_map(|bus| &mut bus.regions);
            match step {
                Step::DestroyNamespace { name, .. } => {
                    regions.for_each(|region| region.namespaces.retain(|one| one.to_string() != *name));
                }
                Step::LabelRegion { region: number, .. } => {
                    regions
                        .filter(|region| region.number == *number)
                        .for_each(|region| region.namespaces.clear());
                }
                Step::FormRegion { region } => {
                    let region = NdRegion {
                        number: region.number,
                        size: Some(region.size),
                        numa_node: Some(region.socket.into()),
                        enabled: true,
                        ..NdRegion::default()
                    };
                    let provider = "CXL".to_owned();
                    after.inventory.buses.push(NdBus { provider, regions: vec![region], ..NdBus::default() });
                }
                _ => {}
            }
        }
        for row in self.table.rows.iter().filter(created) {
            let regions = after.inventory.buses.iter_mut().flat_map(|bus| &mut bus.regions);
            for region in regions.filter(|region| Some(region.number) == row.region) {
                region.namespaces.extend(namespace(region.number, row));
            }
        }
        after
    }
}

/// Returns the new namespace of a row.
fn namespace(region: u32, row: &Row) -> Option<NdNamespace> {
    let Usage::Namespace { name, mode, usable, label, device, .. } = &row.usage else { return None };
    let number = name.rsplit_once('.')?.1.parse().ok()?;
    let map = NdPageMap { uuid: Uuid::nil(), location: None, align: None };
    Some(NdNamespace {
        personality: match mode {
            Mode::Raw => NdPersonality::Raw,
            Mode::Fsdax => NdPersonality::Fsdax(map),
            Mode::Devdax => NdPersonality::Devdax(map, None),
            Mode::Sector => NdPersonality::Sector { uuid: Uuid::nil() },
        },
        size: Some(*usable),
        span: Some(row.size),
        block_device: (*mode != Mode::Devdax).then(|| device.clone()),
        name: label.clone(),
        ..NdNamespace::new(region, number)
    })
}
