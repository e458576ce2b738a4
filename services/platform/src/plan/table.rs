//! Table of the use of a machine's capacity.

use super::amount::rounded;
use crate::listing::one_line;
use crate::namespace::{Mode, free};
use crate::platform::{Capacities, Platform};
use crate::region::{Origin, Region};

/// Use of a machine's capacity, by socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Rows in the order of sockets and regions.
    pub rows: Vec<Row>,
}

/// One use of capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The socket.
    pub socket: u16,
    /// The number of the region; `None` if the capacity is in no region.
    pub region: Option<u32>,
    /// Number of modules that share the capacity.
    pub modules: usize,
    /// Size in bytes.
    pub size: u64,
    /// The use.
    pub usage: Usage,
}

/// Use of capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Volatile memory.
    Memory,
    /// A namespace.
    Namespace {
        /// The kernel's name.
        name: String,
        /// Its mode.
        mode: Mode,
        /// Bytes that are available to its user.
        usable: u64,
        /// The user's name.
        label: String,
        /// Its node in /dev.
        device: String,
        /// True if it is enabled.
        enabled: bool,
    },
    /// Mapped capacity without a namespace.
    Free,
    /// Capacity that a goal leaves unmapped.
    Reserved,
    /// Capacity without a goal.
    Unconfigured,
}

impl Usage {
    /// Returns a word for the use.
    pub fn as_str(&self) -> &str {
        match self {
            Usage::Memory => "memory",
            Usage::Namespace { name, .. } => name,
            Usage::Free => "free",
            Usage::Reserved => "reserved",
            Usage::Unconfigured => "not configured",
        }
    }
}

impl Table {
    /// Heads of the columns.
    pub(crate) const HEAD: [&str; 9] =
        ["socket", "region", "modules", "what", "size", "mode", "usable", "device", "name"];

    /// Returns the use of the capacity of the modules.
    pub fn of(platform: &Platform) -> Table {
        let regions = platform.module_regions();
        let mut rows = Vec::new();
        for socket in platform.machine.sockets() {
            let here = platform.machine.modules.iter().filter(|module| module.handle.socket() == socket);
            let uses: Vec<Capacities> = here.map(|module| platform.capacities(module)).collect();
            let plain = |usage: Usage, bytes: fn(&Capacities) -> u64| Row {
                socket,
                region: None,
                modules: uses.iter().filter(|one| bytes(one) > 0).count(),
                size: uses.iter().map(bytes).sum(),
                usage,
            };
            rows.push(plain(Usage::Memory, |one| one.memory));
            for region in regions.iter().filter(|region| region.socket == socket) {
                region_rows(platform, region, &mut rows);
            }
            rows.push(plain(Usage::Reserved, |one| one.reserved));
            rows.push(plain(Usage::Unconfigured, |one| one.unconfigured));
        }
        rows.retain(|row| row.size > 0);
        Table { rows }
    }

    /// Formats a line for each row after a line of heads.
    pub fn text(&self) -> String {
        let mut lines = vec![Table::HEAD.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        align(&lines)
    }
}

impl Row {
    /// Returns the cells for the columns of [`HEAD`](Table::HEAD).
    pub(crate) fn cells(&self) -> [String; 9] {
        let region = self.region.map_or(String::new(), |region| format!("region{region}"));
        let [mode, usable, device, name] = match &self.usage {
            Usage::Namespace { mode, usable, label, device, enabled, .. } => {
                let off = if *enabled { "" } else { ", disabled" };
                let mode = format!("{}{off}", mode.as_str());
                [mode, rounded(*usable), format!("/dev/{device}"), one_line(label)]
            }
            _ => <[String; 4]>::default(),
        };
        let (socket, modules) = (self.socket.to_string(), self.modules.to_string());
        let (what, size) = (self.usage.as_str().to_owned(), rounded(self.size));
        [socket, region, modules, what, size, mode, usable, device, name]
    }
}

fn region_rows(platform: &Platform, region: &Region, rows: &mut Vec<Row>) {
    let row = |size, usage| Row {
        socket: region.socket,
        region: Some(region.number),
        modules: region.members().len(),
        size,
        usage,
    };
    for namespace in platform.namespaces(region) {
        let device = namespace.block_device().or_else(|| namespace.character_device());
        let usage = Usage::Namespace {
            name: namespace.device(),
            mode: namespace.mode(),
            usable: namespace.usable(),
            device: device.unwrap_or_default(),
            enabled: namespace.enabled,
            label: namespace.name,
        };
        rows.push(row(namespace.size, usage));
    }
    if matches!(region.origin, Origin::Set { .. }) {
        rows.push(row(free(platform, region), Usage::Free));
    }
}

/// Aligns columns, two spaces apart.
fn align<const COLUMNS: usize>(lines: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}
