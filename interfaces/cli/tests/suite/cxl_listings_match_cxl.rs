//! Listings of `lode cxl list` are those of the real cxl, which reads a sysfs with the same machine.
//!
//! ```text
//! emulated machine --> CxlInventory --> files and links of a sysfs, which is mounted over /sys for cxl alone
//!        |                                        |
//!   lode cxl list          compared with       cxl list
//! ```

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::emulated::Emulated;
use lode_platform::cxl::{self, CxlDecoder, CxlInventory, CxlPortLevel, CxlPortView, Dport};
use lode_platform::{Directory, Purpose};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of cxl that is emulated.
const VERSION: &str = "76";
/// Line between two listings of the real cxl.
const BREAK: &str = "=====";

/// A machine with two host bridges, a switch below one of them, and devices of both kinds of memory.
pub(crate) const MACHINE: &str = r#"
name = "cxl"
[profile]
ipmctl = 3
ndctl = 76
kernel = "6.1"
[[dram]]
socket = 0
physical_id = 0x10
locator = "DIMM0"
capacity = "4GiB"
[[cxl.bridge]]
id = 12
[[cxl.bridge]]
id = 52
socket = 1
[[cxl.switch]]
name = "sw0"
bridge = 12
[[cxl.device]]
serial = "0xa1"
switch = "sw0"
persistent = "1GiB"
[[cxl.device]]
serial = "0xa2"
switch = "sw0"
volatile = "512MiB"
persistent = "1GiB"
partition_alignment = "256MiB"
[[cxl.device]]
serial = "0xb1"
bridge = 52
persistent = "1GiB"
firmware = "1.2"
decoders = 2
[[cxl.device]]
serial = "0xb2"
bridge = 52
volatile = "1GiB"
persistent = "1GiB"
[[cxl.window]]
size = "8GiB"
bridges = [12, 52]
persistent = true
[[cxl.window]]
size = "4GiB"
bridges = [12]
granularity = "1KiB"
volatile = true
persistent = true
accelerator = true
"#;

/// One device below one host bridge.
const DIRECT: &str = r#"
name = "direct"
[profile]
ipmctl = 3
ndctl = 76
kernel = "6.1"
[[cxl.bridge]]
id = 0
[[cxl.device]]
serial = "0x0"
bridge = 0
volatile = "6TiB"
[[cxl.window]]
size = "6TiB"
bridges = [0]
volatile = true
"#;

/// Arguments of `list`.
const LISTINGS: [&str; 60] = [
    "",
    "-u",
    "-i",
    "-v",
    "-vv",
    "-M",
    "-Mi",
    "-Mu",
    "-B",
    "-BT",
    "-P",
    "-PT",
    "-E",
    "-D",
    "-Di",
    "-DT",
    "-DTiu",
    "-R",
    "-RT",
    "-RTi",
    "-RTu",
    "-BM",
    "-BMu",
    "-BP",
    "-BPE",
    "-BPEM",
    "-BPEMD",
    "-BPEMDRTi",
    "-PM",
    "-EM",
    "-ED",
    "-EMDi",
    "-MD",
    "-MR",
    "-BD",
    "-BR",
    "-DR",
    "-PDi",
    "-m mem0",
    "-m mem1,mem2",
    "-M -m 3",
    "-BPEMDT -m mem0",
    "-m 0000:10:00.0",
    "-s 0xa1",
    "-s 162 -BP",
    "-p port1",
    "-p root",
    "-p switch",
    "-P -p root -S",
    "-p endpoint -P",
    "-P -p 3",
    "-M -p port1",
    "-D -p port3 -i",
    "-e endpoint4",
    "-e mem1 -EM",
    "-d root",
    "-d decoder0.0",
    "-M -d decoder0.1",
    "-r region0",
    "-D -r 0",
];

struct Tree {
    root: PathBuf,
}

impl Tree {
    fn folder(&self, path: &str) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Makes a link to a folder of the tree, which will be mounted at /sys.
    fn link(&self, folder: &Path, link: PathBuf) {
        symlink(Path::new("/sys").join(folder.strip_prefix(&self.root).unwrap()), link).unwrap();
    }

    fn value(folder: &Path, name: &str, value: impl ToString) {
        fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        fs::write(folder.join(name), format!("{}\n", value.to_string())).unwrap();
    }

    /// Adds an object to the devices of the bus.
    fn device(&self, path: &str, name: &str) -> PathBuf {
        let folder = self.folder(&format!("{path}/{name}"));
        let devices = self.folder("bus/cxl/devices");
        self.link(&folder, devices.join(name));
        folder
    }

    fn bind(&self, folder: &Path, driver: &str) {
        self.link(&self.folder(&format!("bus/cxl/drivers/{driver}")), folder.join("driver"));
    }

    /// Writes the sysfs of a machine.
    fn write(&self, inventory: &CxlInventory) {
        self.folder("bus/cxl/drivers");
        self.folder("bus/cxl/devices");
        for memdev in &inventory.memdevs {
            let name = format!("mem{}", memdev.number);
            let folder = self.device(&Tree::host_of(inventory, memdev.number), &name);
            Tree::value(&folder, "pmem/size", format!("{:#x}", memdev.pmem_size));
            Tree::value(&folder, "ram/size", format!("{:#x}", memdev.ram_size));
            Tree::value(&folder, "serial", format!("{:#x}", memdev.serial.unwrap()));
            Tree::value(&folder, "numa_node", memdev.numa_node.unwrap());
            Tree::value(&folder, "label_storage_size", memdev.label_area);
            Tree::value(&folder, "payload_max", 4096);
            Tree::value(&folder, "firmware_version", memdev.firmware.as_deref().unwrap_or(""));
            if memdev.enabled {
                self.bind(&folder, "cxl_mem");
            }
        }
        for port in &inventory.ports {
            self.port(inventory, port);
        }
    }

    /// Returns the folder of the PCI device that is a memory device: below the downstream port above it.
    fn host_of(inventory: &CxlInventory, memdev: u32) -> String {
        let host = &inventory.memdevs[memdev as usize].host;
        let endpoint = inventory.ports.iter().find(|port| port.memdev == Some(memdev));
        let above = endpoint.map(|endpoint| Tree::above(inventory, endpoint));
        format!("{}/{host}", above.unwrap_or_else(|| "devices/unknown".to_owned()))
    }

    /// Returns the folder of the downstream port above a port; below a root, that of the host bridge's PCI bus.
    fn above(inventory: &CxlInventory, port: &CxlPortView) -> String {
        let above = inventory.port(port.above.unwrap()).unwrap();
        Tree::dport(inventory, above, &above.dports[port.dport])
    }

    /// Returns the folder of a downstream port; of those of a root, that of the host bridge's PCI bus.
    fn dport(inventory: &CxlInventory, port: &CxlPortView, dport: &Dport) -> String {
        let names = std::iter::once(&dport.name).chain(&dport.alias);
        let bus = names.into_iter().find(|name| name.starts_with("pci"));
        match (bus, port.level, port.above.and_then(|above| inventory.port(above))) {
            (Some(bus), CxlPortLevel::Root, _) => format!("devices/{bus}"),
            (_, _, Some(above)) if above.level == CxlPortLevel::Root => {
                format!("{}/{}", Tree::above(inventory, port), dport.name)
            }
            _ => format!("{}/{}", Tree::uport(inventory, port), dport.name),
        }
    }

    /// Returns the folder of the device that is a port.
    fn uport(inventory: &CxlInventory, port: &CxlPortView) -> String {
        let above = port.above.map(|above| inventory.port(above).unwrap());
        match above {
            None => "devices/platform/ACPI0017:00".to_owned(),
            Some(above) if above.level == CxlPortLevel::Root => format!("devices/{}", port.host),
            Some(_) => match port.memdev {
                Some(memdev) => format!("{}/mem{memdev}", Tree::host_of(inventory, memdev)),
                None => format!("{}/{}", Tree::above(inventory, port), port.host),
            },
        }
    }

    fn path_of(&self, inventory: &CxlInventory, port: &CxlPortView) -> String {
        match port.above.and_then(|above| inventory.port(above)) {
            Some(above) => format!("{}/{}", self.path_of(inventory, above), port.name()),
            None => format!("devices/platform/ACPI0017:00/{}", port.name()),
        }
    }

    fn port(&self, inventory: &CxlInventory, port: &CxlPortView) {
        let path = self.path_of(inventory, port);
        let folder = self.device(path.rsplit_once('/').unwrap().0, &port.name());
        let uport = self.folder(&Tree::uport(inventory, port));
        self.link(&uport, folder.join("uport"));
        if port.enabled {
            self.bind(&folder, "cxl_port");
        }
        for dport in &port.dports {
            let mut target = self.folder(&Tree::dport(inventory, port, dport));
            if let Some(alias) = &dport.alias {
                let (bus, is_bus) = (target.clone(), target.ends_with(&dport.name));
                let bridge = self.folder(&format!("devices/{}", if is_bus { alias } else { &dport.name }));
                self.link(&bridge, bus.join("firmware_node"));
                self.link(&bus, bridge.join("physical_node"));
                target = if is_bus { bus } else { bridge };
            }
            self.link(&target, folder.join(format!("dport{}", dport.id)));
        }
        for (index, decoder) in port.decoders.iter().enumerate() {
            self.decoder(&path, port, index, decoder);
        }
    }

    fn decoder(&self, path: &str, port: &CxlPortView, index: usize, decoder: &CxlDecoder) {
        let name = format!("decoder{}.{index}", port.number);
        let folder = self.device(path, &name);
        Tree::value(&folder, "start", format!("{:#x}", decoder.start.unwrap_or(0)));
        Tree::value(&folder, "size", format!("{:#x}", decoder.size));
        Tree::value(&folder, "interleave_ways", decoder.ways);
        Tree::value(&folder, "interleave_granularity", decoder.granularity);
        Tree::value(&folder, "locked", 0);
        if port.level == CxlPortLevel::Endpoint {
            let (start, len) = decoder.dpa.unwrap_or_default();
            Tree::value(&folder, "dpa_resource", format!("{start:#x}"));
            Tree::value(&folder, "dpa_size", format!("{len:#018x}"));
            Tree::value(&folder, "mode", decoder.kind.map_or("none", |kind| kind.as_str()));
            Tree::value(&folder, "target_type", "expander");
        } else {
            let ids = decoder.targets.iter().map(|target| port.dports[*target].id.to_string());
            Tree::value(&folder, "target_list", ids.collect::<Vec<_>>().join(","));
        }
        let region = decoder.region.map_or(String::new(), |region| format!("region{region}"));
        Tree::value(&folder, "region", region);
        let Some(window) = decoder.window else { return };
        Tree::value(&folder, "cap_pmem", u32::from(window.pmem));
        Tree::value(&folder, "cap_ram", u32::from(window.ram));
        Tree::value(&folder, "cap_type2", u32::from(window.accelerator));
        Tree::value(&folder, "cap_type3", 1);
        Tree::value(&folder, "create_pmem_region", format!("region{}", window.next_region));
        for region in &decoder.regions {
            let folder = self.device(&format!("{path}/{name}"), &format!("region{}", region.number));
            Tree::value(&folder, "resource", format!("{:#x}", region.start.unwrap()));
            Tree::value(&folder, "size", format!("{:#x}", region.size));
            Tree::value(&folder, "uuid", region.uuid.unwrap());
            Tree::value(&folder, "interleave_ways", region.ways);
            Tree::value(&folder, "interleave_granularity", region.granularity);
            Tree::value(&folder, "commit", u32::from(region.committed));
            for position in 0..region.ways {
                let mapping = region.mappings.iter().find(|one| one.position == position);
                let target = mapping.map(|one| format!("decoder{}.{}", one.endpoint, one.decoder));
                Tree::value(&folder, &format!("target{position}"), target.unwrap_or_default());
            }
            if region.enabled {
                self.bind(&folder, "cxl_region");
            }
        }
    }
}

/// Returns the hash by which the kernel orders the names in a folder of sysfs (`kernfs_name_hash`, 64-bit).
fn name_hash(name: &str) -> u64 {
    let mut hash = 0_u64;
    for byte in name.bytes() {
        hash = hash.wrapping_add(u64::from(byte) << 4).wrapping_add(u64::from(byte >> 4)).wrapping_mul(11);
    }
    (hash.wrapping_mul(0x61c8_8646_80b5_83eb) >> 32) & 0x7fff_ffff
}

/// Lists a folder and all below it, those of a folder in the kernel's order or in the reverse one.
fn paths(folder: &Path, inner: &str, reverse: bool, list: &mut String) {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_by_key(|name| name_hash(name));
    if reverse {
        names.reverse();
    }
    for name in names {
        let (path, inner) = (folder.join(&name), format!("{inner}{name}"));
        *list += &format!("{inner}\n");
        if path.symlink_metadata().unwrap().is_dir() {
            paths(&path, &format!("{inner}/"), reverse, list);
        }
    }
}

/// Runs the real cxl on this sysfs. Returns its listings, or why it can't.
///
/// cxl lists things by their order in folders. A tmpfs has them in the order in which they were made, or in the reverse one.
fn real_listings(tree: &Path, memdevs: usize) -> Result<Vec<String>, String> {
    let lists_at = |order: &str| tree.with_extension(order);
    for (order, reverse) in [("first", false), ("last", true)] {
        let mut list = String::new();
        paths(tree, "", reverse, &mut list);
        fs::write(lists_at(order), list).unwrap();
    }
    let devices: String = (0..memdevs).map(|number| format!(" /dev/cxl/mem{number}")).collect();
    let lists: String =
        LISTINGS.iter().map(|words| format!("cxl list {words} 2>/dev/null; echo {BREAK}\n")).collect();
    let script = format!(
        "set -e
tree={0}
mount -t tmpfs none /dev
mkdir /dev/cxl
touch /dev/null{devices}
mount -t tmpfs none /sys
mkdir /sys/probe /sys/probe/a
mkdir /sys/probe/b
order=$(ls -U /sys/probe | head -n 1)
rm -r /sys/probe
if [ $order = a ]; then order=first; else order=last; fi
tar -C $tree --no-recursion -cPf - -T $tree.$order | tar -C /sys -xPf -
set +e
{lists}",
        tree.display()
    );
    let run = Command::new("unshare").args(["-m", "sh", "-c", &script]).output();
    let run = run.map_err(|error| format!("unshare: {error}"))?;
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into_owned());
    }
    let text = String::from_utf8(run.stdout).unwrap();
    let mut listings: Vec<String> = text.split(&format!("{BREAK}\n")).map(str::to_owned).collect();
    listings.pop();
    Ok(listings)
}

/// Returns why there is no real cxl of the version to compare with.
fn missing() -> Option<String> {
    match Command::new("cxl").arg("version").output() {
        Ok(out) if String::from_utf8_lossy(&out.stdout).starts_with(VERSION) => None,
        Ok(out) => Some(format!("cxl is {}", String::from_utf8_lossy(&out.stdout).trim())),
        Err(error) => Some(format!("cxl: {error}")),
    }
}

/// Compares all listings of a machine. Returns false if the real cxl can't be run.
fn compare(test: &str, machine: &Emulated, when: &str) -> bool {
    let inventory = {
        let directory = Directory::open(&machine.state, Purpose::ReadOnly).unwrap();
        cxl::inventory(directory.platform())
    };
    let root =
        machine.folder.path().join(format!("sys{}", fs::read_dir(machine.folder.path()).unwrap().count()));
    let tree = Tree { root };
    tree.write(&inventory);
    // Links lead to the mounted tree.
    let listings = match real_listings(&tree.root, inventory.memdevs.len()) {
        Ok(listings) => listings,
        Err(why) => {
            lode_testing::skip(test, why);
            return false;
        }
    };
    assert_eq!(listings.len(), LISTINGS.len());
    let differing = LISTINGS.iter().zip(&listings).filter_map(|(words, real)| {
        let words = format!("list {words}");
        let ours = machine.run("cxl", words.trim()).success();
        (ours != *real).then(|| format!("--- {words}: lode\n{ours}--- {words}: cxl\n{real}"))
    });
    let differing: Vec<String> = differing.collect();
    assert!(differing.is_empty(), "{} listings differ {when}:\n{}", differing.len(), differing.join(""));
    true
}

#[test]
fn listings_are_those_of_cxl() {
    let test = "listings_are_those_of_cxl";
    if let Some(why) = missing() {
        lode_testing::skip(test, why);
        return;
    }
    if !compare(test, &Emulated::of_text(DIRECT), "of a device") {
        return;
    }
    let by_bus = DIRECT.replace("kernel = \"6.1\"", "kernel = \"6.12\"");
    compare(test, &Emulated::of_text(&by_bus), "of a device on kernel 6.12");
    let machine = Emulated::of_text(MACHINE);
    let steps = [
        "create-region -m -d decoder0.0 -s 2G mem0 mem2 mem1 mem3",
        "create-region -m -d decoder0.1 -s 256M mem0",
        "reserve-dpa -s 256M mem2",
        "disable-region region1",
        "set-partition mem1 -s 1G",
        "disable-memdev -f mem3",
        "disable-port -f port2",
    ];
    compare(test, &machine, "at the start");
    for step in steps {
        machine.run("cxl", step).success();
        compare(test, &machine, step);
    }
}
