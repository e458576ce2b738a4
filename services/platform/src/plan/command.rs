//! The steps of a plan as commands of ipmctl, ndctl and cxl.

use super::real::cxl::CxlRegion;
use super::shell::quote;
use super::step::Step;
use crate::goal::{GoalRequest, PersistentKind};
use crate::namespace::{CreateNamespace, MapLocation};
use crate::state::LabelVersion;
use std::fmt::Display;

impl Step {
    /// Returns the shell command that does the step on a real machine.
    pub fn command(&self) -> String {
        match self {
            Step::DestroyNamespace { name, .. } => format!("ndctl destroy-namespace -f {name}"),
            Step::DeleteGoals { modules } => format!("ipmctl delete -goal -dimm {}", list(modules)),
            Step::CreateGoals { request } => create_goal(request),
            Step::ClearConfiguration { modules } => {
                format!("ipmctl delete -f -dimm {} -pcd Config", list(modules))
            }
            Step::Reboot => "reboot".to_owned(),
            Step::LabelRegion { region, modules } => {
                let modules: String = modules.iter().map(|number| format!(" nmem{number}")).collect();
                format!(
                    "ndctl disable-region region{region} && ndctl init-labels -V 1.2{modules} && \
                     ndctl enable-region region{region}"
                )
            }
            Step::FormRegion { region } => form_region(region),
            Step::CreateNamespace { parameters, .. } => create_namespace(parameters),
        }
    }
}

fn create_goal(request: &GoalRequest) -> String {
    let mut text = "ipmctl create -f -goal".to_owned();
    if !request.targets.modules.is_empty() {
        text += &format!(" -dimm {}", list(&request.targets.modules));
    }
    if !request.targets.sockets.is_empty() {
        text += &format!(" -socket {}", list(&request.targets.sockets));
    }
    for (property, percent) in
        [("MemoryMode", request.memory_percent), ("Reserved", request.reserved_percent)]
    {
        if percent > 0 {
            text += &format!(" {property}={percent}");
        }
    }
    text += match request.kind {
        PersistentKind::AppDirect => " PersistentMemoryType=AppDirect",
        PersistentKind::AppDirectNotInterleaved => " PersistentMemoryType=AppDirectNotInterleaved",
    };
    if request.labels == LabelVersion::V1_1 {
        text += " NamespaceLabelVersion=1.1";
    }
    text
}

fn form_region(region: &CxlRegion) -> String {
    let CxlRegion { window, devices, size, .. } = region;
    let names: String = devices.iter().map(|number| format!(" mem{number}")).collect();
    format!("cxl create-region -m -t pmem -d {window} -w {} -s {size}{names}", devices.len())
}

fn create_namespace(parameters: &CreateNamespace) -> String {
    let mut text = "ndctl create-namespace".to_owned();
    if let Some(region) = parameters.region {
        text += &format!(" -r region{region}");
    }
    text += &format!(" -m {}", parameters.mode.as_str());
    for (option, bytes) in [("-s", parameters.size), ("-a", parameters.align), ("-l", parameters.sector_size)]
    {
        if let Some(bytes) = bytes {
            text += &format!(" {option} {bytes}");
        }
    }
    if parameters.map == MapLocation::Mem {
        text += " -M mem";
    }
    if !parameters.name.is_empty() {
        text += &format!(" --name={}", quote(&parameters.name));
    }
    if let Some(uuid) = parameters.uuid {
        text += &format!(" -u {uuid}");
    }
    text
}

fn list<T: Display>(things: &[T]) -> String {
    things.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}
