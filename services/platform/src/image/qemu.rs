//! QEMU options for booting with an image.

use super::layout::ImageLayout;
use super::qemu_slot::QemuSlot;
use crate::machine::PersistenceDomain;
use std::path::Path;

/// Bytes of the machine's other memory.
const MEMORY: u64 = 1 << 30;
/// Address space in bytes that QEMU reserves for each module beyond its size, for alignment.
const SLACK: u64 = 1 << 30;

/// Returns the options for an NVDIMM with labels.
pub(super) fn nvdimm(
    path: &Path,
    layout: ImageLayout,
    slot: QemuSlot,
    domain: PersistenceDomain,
) -> Vec<String> {
    let persistence = match domain {
        PersistenceDomain::CpuCache => ",nvdimm-persistence=cpu",
        PersistenceDomain::MemoryController => ",nvdimm-persistence=mem-ctrl",
        PersistenceDomain::Unknown => "",
    };
    let number = slot.0;
    let device =
        format!("nvdimm,id=nvdimm{number},memdev=mem{number},label-size={},slot={number}", layout.label_len);
    let machine = format!("q35,nvdimm=on{persistence}");
    options(&machine, path, layout, number, &device, "")
}

/// Returns the options for a virtio-pmem device, which has no labels. A flush by the guest makes its writes durable.
pub(super) fn virtio_pmem(path: &Path, layout: ImageLayout) -> Vec<String> {
    options("q35", path, layout, 0, "virtio-pmem-pci,id=pmem0,memdev=mem0", "")
}

/// Returns the options for a root file system that is read-only for the guest.
pub(super) fn kata_root(path: &Path, layout: ImageLayout) -> Vec<String> {
    let device = "nvdimm,id=nvdimm0,memdev=mem0,unarmed=on";
    options("q35,nvdimm=on", path, layout, 0, device, ",readonly=on")
}

fn options(
    machine: &str,
    path: &Path,
    layout: ImageLayout,
    number: u8,
    device: &str,
    access: &str,
) -> Vec<String> {
    let slots = u64::from(number) + 1;
    let memory_max = (MEMORY + slots * (layout.file_len() + SLACK)).next_multiple_of(1 << 30);
    // QEMU ends the name at a comma unless it is doubled.
    let path = path.to_string_lossy().replace(',', ",,");
    let size = layout.file_len();
    // With `readonly=on` a shared mapping could not be written, so the mapping is private.
    let share = if access.is_empty() { "on" } else { "off" };
    let object =
        format!("memory-backend-file,id=mem{number},mem-path={path},size={size},share={share}{access}");
    let memory = format!("{}M,slots={slots},maxmem={}M", MEMORY >> 20, memory_max >> 20);
    ["-machine", machine, "-m", &memory, "-object", &object, "-device", device].map(str::to_owned).to_vec()
}
