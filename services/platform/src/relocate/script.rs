//! Moves, exchanges and extensions as a shell script for a real machine: ndctl and ipmctl, and dd, daxio and cmp for the
//! data. Data is destroyed last, after each copy was compared.

use super::evacuate::PlannedMove;
use super::exchange::Exchange;
use super::extend::Extension;
use super::grow::Growth;
use super::origin::parameters_of;
use super::record::{Place, Relocation};
use crate::goal::GoalRequest;
use crate::listing::one_line;
use crate::machine::Handle;
use crate::namespace::{CreateNamespace, Mode};
use crate::plan::Step;
use crate::plan::amount::brief;
use crate::plan::shell::quote;
use std::path::Path;
use uuid::Uuid;

const HEAD: &str = "\
set -eu
# ends the script if a program is missing
needs() {
    command -v \"$1\" > /dev/null || { echo \"$1 is missing: install $2\" >&2; exit 1; }
}
# without the first three the script would not see what is in use
needs findmnt util-linux
needs lsblk util-linux
needs fuser psmisc
needs ndctl ndctl
needs awk mawk
needs cmp diffutils
# prints the device of the namespace with this UUID
device() {
    ndctl list -Nv | awk -v uuid=\"$1\" 'found && /\"dev\":/ { exit }
        index($0, uuid) { found = 1 }
        found && /\"(blockdev|chardev)\"/ { gsub(/[\",]/, \"\"); sub(/.*:/, \"\"); print \"/dev/\" $1; known = 1; exit }
        END { if (!known) print \"/dev/no-device/of-namespace/\" uuid }'
}
# prints the name of the namespace with this UUID
name() {
    ndctl list -Nv | awk -v uuid=\"$1\" '/\"dev\":/ { gsub(/[\",]/, \"\"); sub(/.*:/, \"\"); name = $1 }
        index($0, uuid) { print name; exit }'
}
# ends the script if a file system of a device is mounted, or another device or a process uses it
unused() {
    if findmnt --source \"$1\"; then echo \"$1 is mounted\" >&2; exit 1; fi
    if [ -n \"$(lsblk -nro MOUNTPOINT \"$1\" 2> /dev/null)\" ]; then
        echo \"a partition of $1 is mounted, or swap\" >&2; exit 1
    fi
    if fuser -s \"$1\" 2> /dev/null; then echo \"a process uses $1\" >&2; exit 1; fi
    for holder in /sys/class/block/\"${1#/dev/}\"/holders/*; do
        if [ -e \"$holder\" ]; then echo \"$1 is used by $holder\" >&2; exit 1; fi
    done
}
# prints the digest of the first bytes of a devdax namespace; of one that can't be read it is that of its path
digest() {
    { daxio -i \"$1\" -l \"$2\" || echo \"$1\"; } | sha256sum
}
";

/// Returns the script of an evacuation. `remarks` are comments at its start.
pub fn evacuation_script(remarks: &[String], moves: &[PlannedMove]) -> String {
    let mut script = Script::new(remarks, moves.iter().map(|planned| &planned.relocation));
    script.leave(moves);
    script.0
}

/// Returns the script of an exchange, which has three parts: the machine is off or starts between them. If the exchange is
/// done, or was none, the script is what comes back. `remarks` are comments at its start.
pub fn exchange_script(remarks: &[String], plan: &Exchange) -> String {
    let away = plan.evacuation.moves.iter().map(|planned| &planned.relocation);
    let mut script = Script::new(remarks, away.chain(&plan.back));
    if !plan.evacuation.lost.is_empty() {
        script.remark(&format!("lost: {}", plan.evacuation.lost.join(", ")));
    }
    if plan.old.is_none() {
        script.come_back(&plan.back);
        return script.0;
    }
    if plan.goal.is_some() {
        script.line("needs ipmctl ipmctl");
    }
    script.remark("run it in three parts:");
    script.remark("  sh FILE leave");
    script.remark(&format!(
        "  power off, exchange the module in slot {} ({}), power on",
        plan.new.locator, plan.new.handle
    ));
    script.remark("  sh FILE goal, which restarts the machine");
    script.remark("  sh FILE back");
    script.line("case \"${1-}\" in");
    script.line("leave)");
    script.leave(&plan.evacuation.moves);
    script.line(":;;");
    script.line("goal)");
    if let Some(goal) = &plan.goal {
        script.partition(&plan.group, plan.new.handle, goal);
    }
    script.line(":;;");
    script.line("back)");
    script.come_back(&plan.back);
    script.line(":;;");
    script.line("*) echo \"usage: sh $0 leave|goal|back\" >&2; exit 2;;");
    script.line("esac");
    script.0
}

/// Returns the script that gives new modules, which are in their slots, a goal.
pub fn extension_script(plan: &Extension) -> String {
    let remarks = match plan.new.as_slice() {
        [] => Vec::new(),
        new => {
            let slots: Vec<String> =
                new.iter().map(|one| format!("{} ({})", one.handle, one_line(&one.locator))).collect();
            vec![format!("when the new modules are in the slots {}", slots.join(", "))]
        }
    };
    let mut text: String = remarks.iter().map(|remark| format!("# {remark}\n")).collect();
    text += &format!("{}\nreboot\n", Step::CreateGoals { request: plan.goal.clone() }.command());
    text
}

/// Returns the script of a growth, with the data meanwhile in `file`.
pub fn growth_script(plan: &Growth, region: u32, file: &Path) -> String {
    let one = &plan.step.relocation;
    let mut script = Script::new(&[], [one]);
    let node = node(one);
    script.remark(&about(one));
    script.line(&format!("unused {node}"));
    script.copy_to_file(one, &node, file);
    script.destroy(one);
    let wanted = CreateNamespace {
        region: Some(region),
        size: Some(plan.size),
        uuid: Some(one.uuid),
        ..parameters_of(one)
    };
    script.line(&create(&wanted));
    script.copy_from_file(one, file);
    script.line(&format!("rm {}", quote(&file.display().to_string())));
    script.remark("then grow the file system: resize2fs of ext4, not mounted, or xfs_growfs of XFS, mounted");
    script.0
}

struct Script(String);

impl Script {
    /// Returns a script that copies these namespaces, up to its functions.
    fn new<'a>(remarks: &[String], copied: impl IntoIterator<Item = &'a Relocation>) -> Script {
        let mut script = Script(String::from(
            "# As root, with sh -e: each command ends the script if it fails, and what is destroyed was compared before.\n",
        ));
        remarks.iter().for_each(|remark| script.remark(remark));
        script.0 += HEAD;
        if copied.into_iter().any(|one| one.mode == Mode::Devdax) {
            script.line("needs daxio daxio");
        }
        script
    }

    fn line(&mut self, line: &str) {
        self.0 += line;
        self.0.push('\n');
    }

    fn remark(&mut self, text: &str) {
        self.line(&format!("# {}", one_line(text)));
    }

    fn leave(&mut self, moves: &[PlannedMove]) {
        if moves.len() > 1 {
            self.remark("no namespace is made before all are unused");
            moves.iter().for_each(|planned| self.line(&format!("unused {}", node(&planned.relocation))));
        }
        for planned in moves {
            let one = &planned.relocation;
            let node = node(one);
            self.remark(&about(one));
            self.line(&format!("unused {node}"));
            match &one.place {
                Place::Namespace(other) => {
                    if let Some(parameters) = &planned.parameters {
                        self.line(&create(parameters));
                    }
                    self.copy(one, &node, &device(*other));
                }
                Place::File(path) => self.copy_to_file(one, &node, path),
            }
        }
        if !moves.is_empty() {
            self.remark("from here on, data is destroyed");
        }
        for planned in moves {
            self.destroy(&planned.relocation);
        }
    }

    /// Destroys a namespace, unless something uses it: its copy may have taken hours.
    fn destroy(&mut self, one: &Relocation) {
        self.line(&format!("unused {}", node(one)));
        self.line(&format!("ndctl destroy-namespace -f {}", one.device));
    }

    fn partition(&mut self, group: &[Handle], module: Handle, goal: &GoalRequest) {
        let others: Vec<Handle> = group.iter().copied().filter(|one| *one != module).collect();
        if !others.is_empty() {
            self.line(&Step::ClearConfiguration { modules: others }.command());
        }
        self.line(&Step::CreateGoals { request: goal.clone() }.command());
        self.line("reboot");
    }

    fn come_back(&mut self, back: &[Relocation]) {
        for one in back {
            self.remark(&format!("{} comes back", about(one)));
            let numbers = one.device.strip_prefix("namespace").and_then(|rest| rest.split_once('.'));
            let wanted = CreateNamespace {
                region: numbers.and_then(|(region, _)| region.parse().ok()),
                size: Some(one.size),
                uuid: Some(one.uuid),
                ..parameters_of(one)
            };
            self.line(&create(&wanted));
            match &one.place {
                Place::Namespace(other) => {
                    let from = device(*other);
                    self.line(&format!("unused {from}"));
                    self.copy(one, &from, &device(one.uuid));
                }
                Place::File(path) => self.copy_from_file(one, path),
            }
        }
        if !back.is_empty() {
            self.remark("from here on, data is destroyed");
        }
        for one in back {
            match &one.place {
                Place::Namespace(other) => {
                    self.line(&format!("unused {}", device(*other)));
                    self.line(&format!("ndctl destroy-namespace -f \"$(name {other})\""));
                }
                Place::File(path) => self.line(&format!("rm {}", quote(&path.display().to_string()))),
            }
        }
    }

    fn copy(&mut self, one: &Relocation, from: &str, to: &str) {
        if one.mode == Mode::Devdax {
            self.line(&format!("daxio -i {from} -o {to} -l {}", one.usable));
            let digest = |node: &str| format!("\"$(digest {node} {})\"", one.usable);
            self.line(&format!("test {} = {}", digest(from), digest(to)));
        } else {
            self.line(&format!("dd if={from} of={to} bs=1M conv=fsync status=none"));
            self.line(&format!("cmp -n {} {from} {to}", one.usable));
        }
    }

    fn copy_to_file(&mut self, one: &Relocation, from: &str, file: &Path) {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = quote(&folder.display().to_string());
        let file = quote(&file.display().to_string());
        if one.mode == Mode::Devdax {
            // The status of a pipeline is that of its last program. So none writes the file, and its length is checked:
            // then a comparison with a part of the data fails, too.
            self.line(&format!("(set -C; : > {file})"));
            self.line(&format!("daxio -i {from} -o {file} -l {}", one.usable));
            self.line(&format!("test \"$(stat -c %s {file})\" -eq {}", one.usable));
            self.line(&format!("sync {file}"));
            self.line(&format!("daxio -i {from} -l {} | cmp - {file}", one.usable));
        } else {
            self.line(&format!("dd if={from} of={file} bs=1M conv=excl,sparse,fsync status=none"));
            self.line(&format!("truncate -s {} {file}", one.usable));
            self.line(&format!("cmp {from} {file}"));
        }
        self.line(&format!("sync {folder}"));
    }

    fn copy_from_file(&mut self, one: &Relocation, file: &Path) {
        let (file, to) = (quote(&file.display().to_string()), device(one.uuid));
        if one.mode == Mode::Devdax {
            self.line(&format!("daxio -i {file} -o {to} -l {}", one.usable));
            self.line(&format!("daxio -i {to} -l {} | cmp - {file}", one.usable));
        } else {
            self.line(&format!("dd if={file} of={to} bs=1M conv=fsync status=none"));
            self.line(&format!("cmp -n {} {file} {to}", one.usable));
        }
    }
}

fn create(parameters: &CreateNamespace) -> String {
    let step = Step::CreateNamespace { parameters: parameters.clone(), socket: 0, name: String::new() };
    format!("{} > /dev/null", step.command())
}

/// Returns the words of a shell that find the device of a namespace.
fn device(uuid: Uuid) -> String {
    format!("\"$(device {uuid})\"")
}

fn about(one: &Relocation) -> String {
    let name = if one.name.is_empty() { String::new() } else { format!(" \"{}\"", one.name) };
    format!("{}{name}: {}, {}", one.device, one.mode.as_str(), brief(one.size))
}

/// Returns the path of a namespace's device, by the kernel's rule.
fn node(one: &Relocation) -> String {
    let numbers = one.device.strip_prefix("namespace").unwrap_or_default();
    let (region, number) = numbers.split_once('.').unwrap_or((numbers, "0"));
    if one.mode == Mode::Devdax {
        return format!("/dev/dax{region}.{number}");
    }
    let number = if number == "0" { String::new() } else { format!(".{number}") };
    let suffix = if one.mode == Mode::Sector { "s" } else { "" };
    format!("/dev/pmem{region}{number}{suffix}")
}
