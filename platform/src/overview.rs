//! A machine at a glance: sockets, modules, regions and namespaces as a tree.

use crate::listing::{Digits, Unit};
use crate::machine::{Health, IpmctlGeneration, Module};
use crate::namespace::Namespace;
use crate::platform::Platform;
use crate::region::{Origin, Region};

impl Platform {
    /// Sockets, modules, regions and namespaces as a tree.
    pub fn overview(&self) -> String {
        let machine = &self.machine;
        let mut text = format!("{}, started {} times\n", machine.name, self.state.boots);
        let regions = self.regions();
        for socket in machine.sockets() {
            let dram = machine.dram_capacity(socket);
            let role = if self.memory_mode() { " as a cache" } else { "" };
            text += &format!("socket {socket}: {} of DRAM{role}\n", size(dram));
            for module in machine.modules.iter().filter(|module| module.handle.socket() == socket) {
                text += &format!("  {}\n", self.module_line(module));
            }
            for region in regions.iter().filter(|region| region.socket == socket) {
                text += &format!("  {}\n", self.region_line(region));
                for namespace in self.namespaces(region) {
                    text += &format!("    {}\n", namespace_line(&namespace));
                }
            }
        }
        text
    }

    fn module_line(&self, module: &Module) -> String {
        let index = self.machine.module_index(module.handle).unwrap_or(0);
        let uses = self.capacities(module);
        let mut parts = vec![format!("nmem{index} {} {}", module.handle, module.locator)];
        let all = [
            (uses.memory, "memory"),
            (uses.app_direct, "app direct"),
            (uses.reserved, "reserved"),
            (uses.unconfigured, "not configured"),
        ];
        parts.extend(
            all.iter()
                .filter(|(bytes, _)| *bytes > 0)
                .map(|(bytes, what)| format!("{} {what}", size(*bytes))),
        );
        if !module.usable() {
            let dead = module.health == Health::NonFunctional;
            let why = if dead { module.health.word() } else { module.security.word() };
            parts.push(format!("can't be used: {why}"));
        }
        if self.state.goal(module.handle).is_some() {
            parts.push("a goal waits for the next start".to_owned());
        }
        parts.join(", ")
    }

    fn region_line(&self, region: &Region) -> String {
        let what = match &region.origin {
            Origin::Set { id, members, .. } => {
                let handles: Vec<String> = members.iter().map(|member| member.module.to_string()).collect();
                format!("set {id:#018x} of {}", handles.join(" + "))
            }
            Origin::Memmap => format!("DRAM from {:#x} on, by memmap=", region.base),
        };
        let state = if region.enabled { "" } else { ", disabled" };
        format!("{}: {}, {what}{state}", region.name(), size(region.size))
    }
}

fn namespace_line(namespace: &Namespace) -> String {
    let device = namespace.block_device().or_else(|| namespace.character_device()).unwrap_or_default();
    let state = if namespace.enabled { "" } else { ", disabled" };
    let (mode, size) = (namespace.mode().word(), size(namespace.usable()));
    format!("{}: {size}, {mode}, /dev/{device}{state}", namespace.device())
}

fn size(bytes: u64) -> String {
    Digits::of(IpmctlGeneration::One).show(bytes, Unit::GiB)
}
