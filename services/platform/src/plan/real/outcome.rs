//! Result of a placement: steps, losses, notes, and the table.

use super::placement::Placement;
use super::planned_region::{Change, PlannedNamespace, PlannedRegion};
use super::socket::{node, socket_of};
use crate::namespace::Mode;
use crate::ndctl::{NdNamespace, NdPersonality, NdRegion};
use crate::plan::loss::Loss;
use crate::plan::note::Note;
use crate::plan::request::PlanRequest;
use crate::plan::search::{Allocator, Fulfilled};
use crate::plan::sequence::Plan;
use crate::plan::step::Step;
use crate::plan::table::{Row, Table, Usage};
use std::collections::BTreeMap;

impl Placement<'_> {
    /// Returns the plan that makes the placed requests. `fulfilled` has the others.
    pub(super) fn outcome(&self, request: &PlanRequest, fulfilled: Vec<Fulfilled>) -> Plan {
        let mut named: Vec<Option<u16>> = request.namespaces.iter().map(|one| one.socket).collect();
        named.sort_unstable();
        named.dedup();
        let sockets = if named.contains(&None) { vec![None] } else { named };
        let mut notes: Vec<Note> = fulfilled
            .into_iter()
            .map(|(request, existing)| Note::Fulfilled {
                request: Box::new(request),
                device: existing.device,
            })
            .collect();
        notes.extend(self.rounded.iter().cloned());
        let unusable = sockets.into_iter().flat_map(|socket| self.unusable(socket));
        notes.extend(unusable.map(Note::LeftOut));
        Plan {
            steps: self.steps(),
            losses: self.regions.iter().flat_map(losses).collect(),
            notes,
            table: self.table(),
        }
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = self.regions.iter().flat_map(changes).collect();
        let mut made: Vec<(&PlannedRegion<'_>, &PlannedNamespace)> = self
            .regions
            .iter()
            .flat_map(|planned| planned.made.iter().map(move |made| (planned, made)))
            .collect();
        made.sort_by_key(|(_, made)| made.position);
        steps.extend(made.into_iter().map(|(planned, made)| Step::CreateNamespace {
            parameters: made.parameters.clone(),
            socket: planned.socket,
            name: format!("namespace{}.{}", planned.number, made.number),
        }));
        steps
    }

    /// Returns the contents of the regions after the plan.
    fn table(&self) -> Table {
        let mut rows: Vec<Row> = self.regions.iter().flat_map(rows_of).collect();
        let is_planned =
            |region: &NdRegion| self.regions.iter().any(|planned| planned.number == region.number);
        for region in self.inventory.regions().into_iter().filter(|region| !is_planned(region)) {
            let (socket, modules) = (socket_of(self.inventory, region), region.mappings.len());
            let row = |size, usage| Row { socket, region: Some(region.number), modules, size, usage };
            let active = region.namespaces.iter().filter(|one| one.span != Some(0));
            rows.extend(active.map(|one| row(one.span.unwrap_or(0), existing(one))));
            rows.push(row(region.available.unwrap_or(0), Usage::Free));
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
            rows.insert(end, Row { socket, region: None, modules, size, usage: Usage::Unconfigured });
        }
        rows.retain(|row| row.size > 0);
        Table { rows }
    }
}

/// Returns the steps on a region that precede the new namespaces.
fn changes(planned: &PlannedRegion<'_>) -> Vec<Step> {
    match &planned.change {
        Change::Nothing => Vec::new(),
        Change::Emptied => destroyed(planned)
            .map(|one| Step::DestroyNamespace {
                name: one.to_string(),
                mode: one.mode(),
                size: one.span.unwrap_or(0),
            })
            .collect(),
        Change::Labelled(modules) => {
            vec![Step::LabelRegion { region: planned.number, modules: modules.clone() }]
        }
        Change::Formed(region) => vec![Step::FormRegion { region: region.clone() }],
    }
}

fn losses(planned: &PlannedRegion<'_>) -> Vec<Loss> {
    match &planned.change {
        Change::Nothing | Change::Formed(_) => Vec::new(),
        Change::Labelled(_) => vec![Loss::Unlabelled { region: planned.number, size: planned.size }],
        Change::Emptied => destroyed(planned)
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
fn destroyed<'i>(planned: &PlannedRegion<'i>) -> impl Iterator<Item = &'i NdNamespace> {
    let namespaces = planned.found.into_iter().flat_map(|region| &region.namespaces);
    let mut active: Vec<&NdNamespace> = namespaces.filter(|one| one.span != Some(0)).collect();
    active.sort_by_key(|one| one.number);
    active.into_iter()
}

fn rows_of(planned: &PlannedRegion<'_>) -> Vec<Row> {
    let (socket, region, modules) = (planned.socket, Some(planned.number), planned.ways as usize);
    let row = |size, usage| Row { socket, region, modules, size, usage };
    let mut rows: Vec<(u32, Row)> =
        planned.kept.iter().map(|one| (one.number, row(one.span.unwrap_or(0), existing(one)))).collect();
    rows.extend(planned.made.iter().map(|made| {
        let mode = made.parameters.mode;
        let usage = Usage::Namespace {
            name: format!("namespace{}.{}", planned.number, made.number),
            mode,
            usable: made.usable,
            label: made.parameters.name.clone(),
            device: device(mode, planned.number, made.number),
            enabled: true,
        };
        (made.number, row(made.parameters.size.unwrap_or(0), usage))
    }));
    rows.sort_by_key(|(number, _)| *number);
    let free = row(planned.free, Usage::Free);
    rows.into_iter().map(|(_, row)| row).chain([free]).collect()
}

/// Describes a namespace that stays.
fn existing(namespace: &NdNamespace) -> Usage {
    let mode = namespace.mode();
    let character = match &namespace.personality {
        NdPersonality::Devdax(_, Some(region)) => region.devices.first().map(|device| device.name.clone()),
        _ => None,
    };
    let found = namespace.block_device.clone().or(character);
    Usage::Namespace {
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
