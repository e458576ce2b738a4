//! The machine that QEMU emulates.

use crate::kernel::Kernel;
use crate::scenario::{Boot, Scenario};
use anyhow::Result;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes of data and of labels of a module, unless the scenario makes its own file.
const DATA_LEN: u64 = 512 << 20;
const LABELS_LEN: u64 = 2 << 20;
/// The kernel wants regions of whole 16 MiB: the rest of a file is labels.
const DATA_UNIT: u64 = 16 << 20;
/// Bytes of the labels of a CXL device: the kernel reads all of them.
const CXL_LABELS_LEN: u64 = 1 << 20;

/// The kernel's command line. A panic ends QEMU, and features that only cost time here are off. A busy host must not
/// look like a stall or a broken timer.
const APPEND: &str = "console=ttyS0 panic=-1 nokaslr mitigations=off tsc=reliable no_timer_check cryptomgr.notests \
                      nowatchdog rcupdate.rcu_cpu_stall_suppress=1";

/// Makes the files of a scenario's modules that do not exist yet, empty.
pub(crate) fn make_modules(scenario: &Scenario, folder: &Path) -> Result<()> {
    let nvdimms = (0..scenario.nvdimms).map(|index| (format!("nvdimm{index}.img"), DATA_LEN + LABELS_LEN));
    let virtio_pmems = (0..scenario.virtio_pmems).map(|index| (format!("virtio{index}.img"), DATA_LEN));
    let cxls = (0..scenario.cxls).flat_map(|index| {
        [(format!("cxl{index}.img"), DATA_LEN), (format!("cxl-labels{index}.img"), CXL_LABELS_LEN)]
    });
    for (name, len) in nvdimms.chain(virtio_pmems).chain(cxls) {
        let path = folder.join(name);
        if !path.exists() {
            File::create(path)?.set_len(len)?;
        }
    }
    Ok(())
}

/// Adds CXL memory devices, each on a root port of one host bridge, and a memory window for their regions.
fn add_cxl(command: &mut Command, count: u32) {
    if count == 0 {
        return;
    }
    command.args(["-device", "pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl0"]);
    command.args(["-M", "cxl-fmw.0.targets.0=cxl0,cxl-fmw.0.size=4G"]);
    for index in 0..count {
        let file = |id: &str, name: &str, len: u64| {
            format!("memory-backend-file,id={id}{index},share=on,mem-path={name}{index}.img,size={len}")
        };
        command.args([
            "-object",
            &file("cm", "cxl", DATA_LEN),
            "-object",
            &file("cl", "cxl-labels", CXL_LABELS_LEN),
        ]);
        command.args([
            "-device",
            &format!("cxl-rp,port={index},bus=cxl0,id=cxlport{index},chassis={index},slot={index}"),
        ]);
        command.args([
            "-device",
            &format!(
                "cxl-type3,bus=cxlport{index},persistent-memdev=cm{index},lsa=cl{index},id=cxlmem{index}"
            ),
        ]);
    }
}

/// Returns the path of the newer QEMU below the lab's folder, if `setup/install.sh lab` has unpacked it.
pub(crate) fn newer_qemu(folder: &Path) -> Option<PathBuf> {
    folder.join("qemu/qemu-system-x86_64").canonicalize().ok()
}

/// Returns arguments for the CPU, and for the newer QEMU the firmware of Debian 12.
fn cpu_and_firmware(newer_qemu: bool) -> &'static [&'static str] {
    // The kernel refuses to change a CXL region on a machine that says of itself that it is emulated: it can't tell whether
    // the caches of the real machine are written back.
    if newer_qemu {
        &["-cpu", "max,-hypervisor", "-L", "/usr/share/qemu", "-L", "/usr/share/seabios"]
    } else {
        &["-cpu", "max"]
    }
}

/// Returns the command that boots a scenario's machine in the program `qemu`, with `more` on the kernel's command line. The
/// kernel's console goes to the file `console`, the output of the guest to standard output.
///
/// It uses emulation, never KVM, so every machine runs the same. A file name without a path is in `folder`, the
/// command's current directory.
///
/// # Errors
/// A module has no file.
pub(crate) fn command(
    qemu: &Path,
    scenario: &Scenario,
    boot: &Boot,
    kernel: &Kernel,
    folder: &Path,
    console: &Path,
    more: &str,
) -> Result<Command> {
    let persistence = scenario
        .persistence
        .as_ref()
        .map(|domain| format!(",nvdimm-persistence={domain}"))
        .unwrap_or_default();
    let mut command = Command::new(qemu);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    // One CPU: with two, QEMU 7.2 sometimes runs an instruction that the other CPU is replacing, and a kernel that patches
    // itself ends with "Oops: int3".
    command.args(["-accel", "tcg", "-smp", "1"]).args(cpu_and_firmware(scenario.newer_qemu));
    let ram = format!("{}M,slots=8,maxmem=16G", scenario.ram_mib);
    let cxl = if scenario.cxls > 0 { ",cxl=on" } else { "" };
    command.args(["-machine", &format!("q35,nvdimm=on{persistence}{cxl}"), "-m", &ram]);
    add_cxl(&mut command, scenario.cxls);
    command.args(["-chardev", &format!("file,id=console,path={}", console.display())]);
    command.args(["-serial", "chardev:console", "-serial", "stdio"]);
    command.arg("-kernel").arg(&kernel.image).args(["-initrd", "initramfs"]);
    command.args(["-append", &format!("{APPEND} {more}")]).args(&scenario.qemu);
    let [unarmed, pmem] = [boot.unarmed, scenario.on_libpmem].map(|is| if is { "on" } else { "off" });
    for index in 0..scenario.nvdimms {
        let size = fs::metadata(folder.join(format!("nvdimm{index}.img")))?.len();
        let labels = match size % DATA_UNIT {
            0 => String::new(),
            labels => format!(",label-size={labels}"),
        };
        command.args([
            "-object",
            &format!(
                "memory-backend-file,id=nv{index},mem-path=nvdimm{index}.img,size={size},share=on,pmem={pmem}"
            ),
            "-device",
            &format!("nvdimm,id=dimm{index},memdev=nv{index}{labels},unarmed={unarmed}"),
        ]);
    }
    for index in 0..scenario.virtio_pmems {
        let size = fs::metadata(folder.join(format!("virtio{index}.img")))?.len();
        command.args([
            "-object",
            &format!("memory-backend-file,id=vp{index},mem-path=virtio{index}.img,size={size},share=on"),
            "-device",
            &format!("virtio-pmem-pci,memdev=vp{index},id=virtio{index}"),
        ]);
    }
    Ok(command)
}
