//! Result of a lineup: steps, losses, notes, and the table.

use super::lineup::Lineup;
use super::site::{Change, Made, Site};
use super::socket::{node, socket_of};
use crate::namespace::Mode;
use crate::ndctl::{NdNamespace, NdPersonality, NdRegion};
use crate::plan::loss::Loss;
use crate::plan::note::Note;
use crate::plan::search::Places;
use crate::plan::sequence::Plan;
use crate::plan::step::Step;
use crate::plan::table::{Holding, Row, Table};
use crate::plan::wish::PlanRequest;
use std::collections::BTreeMap;

impl Lineup<'_> {
    /// Returns the plan that makes the placed wishes.
    pub(super) fn outcome(&self, request: &PlanRequest) -> Plan {
        let mut named: Vec<Option<u16>> = request.wishes.iter().map(|wish| wish.socket).collect();
        named.sort_unstable();
        named.dedup();
        let sockets = if named.contains(&None) { vec![None] } else { named };
        let unusable = sockets.into_iter().flat_map(|socket| self.unusable(socket));
        Plan {
            steps: self.steps(),
            losses: self.sites.iter().flat_map(losses).collect(),
            notes: unusable.map(Note::LeftOut).collect(),
            table: self.table(),
        }
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = self.sites.iter().flat_map(changes).collect();
        let mut made: Vec<(&Site<'_>, &Made)> =
            self.sites.iter().flat_map(|site| site.made.iter().map(move |made| (site, made))).collect();
        made.sort_by_key(|(_, made)| made.turn);
        steps.extend(made.into_iter().map(|(site, made)| Step::CreateNamespace {
            wanted: made.wanted.clone(),
            socket: site.socket,
            name: format!("namespace{}.{}", site.number, made.number),
        }));
        steps
    }

    /// Returns the contents of the regions after the plan.
    fn table(&self) -> Table {
        let mut rows: Vec<Row> = self.sites.iter().flat_map(rows_of).collect();
        let is_site = |region: &NdRegion| self.sites.iter().any(|site| site.number == region.number);
        for region in self.inventory.regions().into_iter().filter(|region| !is_site(region)) {
            let (socket, modules) = (socket_of(self.inventory, region), region.mappings.len());
            let row = |size, holding| Row { socket, region: Some(region.number), modules, size, holding };
            let active = region.namespaces.iter().filter(|one| one.span != Some(0));
            rows.extend(active.map(|one| row(one.span.unwrap_or(0), as_it_is(one))));
            rows.push(row(region.available.unwrap_or(0), Holding::Free));
        }
        // The sort is stable: rows of a region keep their order.
        rows.sort_by_key(|row| (row.socket, row.region));
        let mut unused: BTreeMap<u16, (usize, u64)> = BTreeMap::new();
        for device in &self.cxl().devices {
            let taken = device.endpoint.as_ref().map_or(0, |endpoint| endpoint.taken);
            let left = device.persistent.unwrap_or(0).saturating_sub(taken);
            let (count, bytes) = unused.entry(node(device.numa_node)).or_default();
            *count += usize::from(left > 0);
            *bytes += left;
        }
        for (socket, (modules, size)) in unused {
            let end = rows.iter().position(|row| row.socket > socket).unwrap_or(rows.len());
            rows.insert(end, Row { socket, region: None, modules, size, holding: Holding::Unconfigured });
        }
        rows.retain(|row| row.size > 0);
        Table { rows }
    }
}

/// Returns the steps on a region that precede the new namespaces.
fn changes(site: &Site<'_>) -> Vec<Step> {
    match &site.change {
        Change::Nothing => Vec::new(),
        Change::Emptied => unmade(site)
            .map(|one| Step::DestroyNamespace {
                name: one.to_string(),
                mode: one.mode(),
                size: one.span.unwrap_or(0),
            })
            .collect(),
        Change::Labelled(modules) => {
            vec![Step::LabelRegion { region: site.number, modules: modules.clone() }]
        }
        Change::Formed(region) => vec![Step::FormRegion { region: region.clone() }],
    }
}

fn losses(site: &Site<'_>) -> Vec<Loss> {
    match &site.change {
        Change::Nothing | Change::Formed(_) => Vec::new(),
        Change::Labelled(_) => vec![Loss::Unlabelled { region: site.number, size: site.size }],
        Change::Emptied => unmade(site)
            .map(|one| Loss::Namespace {
                device: one.to_string(),
                name: one.name.clone(),
                mode: one.mode(),
                size: one.span.unwrap_or(0),
            })
            .collect(),
    }
}

/// Returns the namespaces of a region that is emptied, in the order of their numbers.
fn unmade<'i>(site: &Site<'i>) -> impl Iterator<Item = &'i NdNamespace> {
    let namespaces = site.found.into_iter().flat_map(|region| &region.namespaces);
    let mut active: Vec<&NdNamespace> = namespaces.filter(|one| one.span != Some(0)).collect();
    active.sort_by_key(|one| one.number);
    active.into_iter()
}

fn rows_of(site: &Site<'_>) -> Vec<Row> {
    let (socket, region, modules) = (site.socket, Some(site.number), site.ways as usize);
    let row = |size, holding| Row { socket, region, modules, size, holding };
    let mut rows: Vec<(u32, Row)> =
        site.kept.iter().map(|one| (one.number, row(one.span.unwrap_or(0), as_it_is(one)))).collect();
    rows.extend(site.made.iter().map(|made| {
        let mode = made.wanted.mode;
        let holding = Holding::Namespace {
            name: format!("namespace{}.{}", site.number, made.number),
            mode,
            usable: made.usable,
            label: made.wanted.name.clone(),
            device: device(mode, site.number, made.number),
            enabled: true,
        };
        (made.number, row(made.wanted.size.unwrap_or(0), holding))
    }));
    rows.sort_by_key(|(number, _)| *number);
    let free = row(site.free, Holding::Free);
    rows.into_iter().map(|(_, row)| row).chain([free]).collect()
}

/// Describes a namespace that stays.
fn as_it_is(namespace: &NdNamespace) -> Holding {
    let mode = namespace.mode();
    let character = match &namespace.personality {
        NdPersonality::Devdax(_, Some(region)) => region.devices.first().map(|device| device.name.clone()),
        _ => None,
    };
    let found = namespace.block_device.clone().or(character);
    Holding::Namespace {
        name: namespace.to_string(),
        mode,
        usable: namespace.size.unwrap_or(0),
        label: namespace.name.clone(),
        device: found.unwrap_or_else(|| device(mode, namespace.region, namespace.number)),
        enabled: namespace.enabled,
    }
}

/// Returns the kernel's name of a namespace's device.
fn device(mode: Mode, region: u32, number: u32) -> String {
    let suffix = if number == 0 { String::new() } else { format!(".{number}") };
    match mode {
        Mode::Devdax => format!("dax{region}.{number}"),
        Mode::Sector => format!("pmem{region}{suffix}s"),
        Mode::Fsdax | Mode::Raw => format!("pmem{region}{suffix}"),
    }
}
