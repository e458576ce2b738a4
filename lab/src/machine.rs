//! The machine that QEMU emulates.

use crate::kernel::Kernel;
use crate::scenario::{Boot, Scenario};
use anyhow::Result;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// Bytes of a module that hold data, and those of its labels: the kernel wants regions of whole 16 MiB.
const DATA_MIB: u64 = 512;
const LABELS_MIB: u64 = 2;

/// The kernel's command line: a panic ends QEMU, what only costs time here is off, and a host that is busy with other
/// things is no stall.
const APPEND: &str = "console=ttyS0 panic=-1 nokaslr mitigations=off tsc=reliable cryptomgr.notests nowatchdog \
                      rcupdate.rcu_cpu_stall_suppress=1";

/// Makes the files behind the modules of a scenario, empty.
pub(crate) fn make_modules(scenario: &Scenario, folder: &Path) -> Result<()> {
    for index in 0..scenario.nvdimms {
        File::create(folder.join(format!("nvdimm{index}.img")))?.set_len((DATA_MIB + LABELS_MIB) << 20)?;
    }
    for index in 0..scenario.virtio_pmems {
        File::create(folder.join(format!("virtio{index}.img")))?.set_len(DATA_MIB << 20)?;
    }
    Ok(())
}

/// The command that boots a scenario's machine. The kernel's console goes to the file `console`; what the guest
/// prints, to standard output.
///
/// Emulation, never KVM, so that every machine runs the same. Names in the folder are the command's own.
pub(crate) fn command(
    scenario: &Scenario,
    boot: &Boot,
    kernel: &Kernel,
    folder: &Path,
    console: &Path,
) -> Command {
    let persistence = scenario
        .persistence
        .as_ref()
        .map(|domain| format!(",nvdimm-persistence={domain}"))
        .unwrap_or_default();
    let mut command = Command::new("qemu-system-x86_64");
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"]);
    command.args(["-machine", &format!("q35,nvdimm=on{persistence}"), "-m", "768M,slots=4,maxmem=8G"]);
    command.args(["-chardev", &format!("file,id=console,path={}", console.display())]);
    command.args(["-serial", "chardev:console", "-serial", "stdio"]);
    command.arg("-kernel").arg(&kernel.image).args(["-initrd", "initramfs", "-append", APPEND]);
    let unarmed = if boot.unarmed { "on" } else { "off" };
    for index in 0..scenario.nvdimms {
        let (size, labels) = (DATA_MIB + LABELS_MIB, LABELS_MIB);
        command.args([
            "-object",
            &format!(
                "memory-backend-file,id=nv{index},mem-path=nvdimm{index}.img,size={size}M,share=on,pmem=off"
            ),
            "-device",
            &format!("nvdimm,id=dimm{index},memdev=nv{index},label-size={labels}M,unarmed={unarmed}"),
        ]);
    }
    for index in 0..scenario.virtio_pmems {
        command.args([
            "-object",
            &format!("memory-backend-file,id=vp{index},mem-path=virtio{index}.img,size={DATA_MIB}M,share=on"),
            "-device",
            &format!("virtio-pmem-pci,memdev=vp{index},id=virtio{index}"),
        ]);
    }
    command
}
