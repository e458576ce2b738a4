//! The options with which QEMU boots with an image.

use super::{QemuSlot, Shape};
use crate::machine::PersistenceDomain;
use std::path::Path;

/// Bytes of memory that the machine has besides.
const MEMORY: u64 = 1 << 30;
/// What QEMU sets aside for each module beyond its size, in bytes: it may align them so far.
const SLACK: u64 = 1 << 30;

/// A module with labels.
pub(super) fn nvdimm(path: &Path, shape: Shape, slot: QemuSlot, domain: PersistenceDomain) -> Vec<String> {
    let persistence = match domain {
        PersistenceDomain::CpuCache => ",nvdimm-persistence=cpu",
        PersistenceDomain::MemoryController => ",nvdimm-persistence=mem-ctrl",
        PersistenceDomain::Unknown => "",
    };
    let number = slot.0;
    let device =
        format!("nvdimm,id=nvdimm{number},memdev=mem{number},label-size={},slot={number}", shape.label_len);
    let machine = format!("q35,nvdimm=on{persistence}");
    options(&machine, path, shape, number, &device, "")
}

/// A device without labels, whose writes are durable when the guest asks for that.
pub(super) fn virtio_pmem(path: &Path, shape: Shape) -> Vec<String> {
    options("q35", path, shape, 0, "virtio-pmem-pci,id=pmem0,memdev=mem0", "")
}

/// A root file system, which the guest can't write.
pub(super) fn kata_root(path: &Path, shape: Shape) -> Vec<String> {
    let device = "nvdimm,id=nvdimm0,memdev=mem0,unarmed=on";
    options("q35,nvdimm=on", path, shape, 0, device, ",readonly=on")
}

fn options(machine: &str, path: &Path, shape: Shape, number: u8, device: &str, access: &str) -> Vec<String> {
    let slots = u64::from(number) + 1;
    let memory_max = (MEMORY + slots * (shape.file_len() + SLACK)).next_multiple_of(1 << 30);
    // QEMU takes a comma for the end of the name unless there are two.
    let path = path.to_string_lossy().replace(',', ",,");
    let size = shape.file_len();
    // A mapping that is shared can't be written where it is read-only for QEMU.
    let share = if access.is_empty() { "on" } else { "off" };
    let object =
        format!("memory-backend-file,id=mem{number},mem-path={path},size={size},share={share}{access}");
    let memory = format!("{}M,slots={slots},maxmem={}M", MEMORY >> 20, memory_max >> 20);
    ["-machine", machine, "-m", &memory, "-object", &object, "-device", device].map(str::to_owned).to_vec()
}
