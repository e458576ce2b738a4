//! The commands that change a machine, each with what happened to the machine before.

/// A machine at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// There is no machine.
    Nothing,
    /// Two modules that are not configured, and memory that firmware reserves.
    Modules,
    /// The modules as one region.
    Region,
    /// A region with namespaces of three modes.
    Namespaces,
    /// A disabled region, with a key-encryption-key for its modules. Needs the kernel's keyring.
    Keys,
    /// CXL devices.
    Cxl,
}

/// The effect of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// One change, which is the same each time.
    Same,
    /// One change, with random identities or keys.
    Random,
    /// One change after the other. Run again, the command goes on.
    Steps,
}

/// A command that changes a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) start: Start,
    /// Commands before it, with semicolons between. `@name` is a file beside the machine.
    pub(super) before: &'static str,
    pub(super) line: &'static str,
    pub(super) effect: Effect,
}

const fn change(start: Start, before: &'static str, line: &'static str, effect: Effect) -> Change {
    Change { start, before, line, effect }
}

impl Change {
    /// Returns true if the kernel's keyring must have the keys of the machine.
    pub(super) fn needs_keys(&self) -> bool {
        // A module that overwrites its media takes no other command.
        self.start == Keys && self.line != LOAD_KEYS && self.before != OVERWRITE
    }
}

impl Start {
    /// Returns the commands that make the machine.
    pub(super) fn lines(self) -> Vec<&'static str> {
        let modules = ["platform init @machine.toml"];
        let region = [&modules[..], &["ipmctl create -f -goal", "platform reboot"]].concat();
        match self {
            Nothing => Vec::new(),
            Modules => modules.to_vec(),
            Region => region,
            Namespaces => {
                let made = [
                    "ndctl create-namespace -m fsdax -s 256M -n data",
                    "ndctl create-namespace -m devdax -s 256M",
                    "ndctl create-namespace -m sector -s 64M",
                ];
                [&region[..], &made].concat()
            }
            Keys => [&region[..], &["ndctl disable-region all", KEEP_KEY]].concat(),
            Cxl => vec!["platform init @cxl.toml"],
        }
    }
}

/// Puts the key-encryption-key into the machine's folder of keys.
pub(super) const KEEP_KEY: &str = "!keep-key";
/// Overwrites some bytes of the file `@image`.
pub(super) const PATCH_IMAGE: &str = "!patch-image";
/// Loads the key-encryption-key of the machine, and the keys of its modules.
pub(super) const LOAD_KEYS: &str = "ndctl load-keys";

const QUIET: &str = "ndctl inject-smart --media-temperature-alarm off nmem0;\
                     ndctl inject-smart --media-temperature-alarm off nmem1";
/// Enables the alarms of each module, and then runs until a signal ends it.
pub(super) const MONITOR: &str = "ndctl monitor -v";

const DUMP: &str = "ipmctl dump -destination @configuration -system -config";
const SETUP: &str = "ndctl setup-passphrase nmem0 -k user:nvdimm-master";
const OVERWRITE: &str = "ndctl sanitize-dimm nmem0 --overwrite";
const TWO_RESERVED: &str =
    "daxctl disable-device dax1.0;daxctl reconfigure-device -s 512M dax1.0;daxctl enable-device dax1.0";
const THREE_RESERVED: &str = "daxctl disable-device dax1.0;daxctl reconfigure-device -s 512M dax1.0;\
                              daxctl enable-device dax1.0;daxctl create-device";
const CXL_REGION: &str = "cxl create-region -m -d decoder0.0 -s 512M mem0 mem2";

use Effect::{Random, Same, Steps};
use Start::{Cxl, Keys, Modules, Namespaces, Nothing, Region};

/// Each command that changes a machine.
pub(super) const CHANGES: [Change; 71] = [
    change(Nothing, "", "platform init @machine.toml", Same),
    change(Modules, "ipmctl create -f -goal", "platform reboot", Same),
    change(Modules, "", "platform plan --fsdax 256M --apply", Random),
    change(Namespaces, "", "platform mkfs namespace0.0 ext4", Random),
    change(Namespaces, "", "platform image export region0 @region.img", Same),
    change(
        Namespaces,
        "platform image export namespace0.0 @image --for virtio-pmem;!patch-image",
        "platform image import @image --into namespace0.0",
        Same,
    ),
    change(
        Namespaces,
        "platform image export region0 @image;!patch-image",
        "platform image import @image --into region0",
        Same,
    ),
    change(Namespaces, "", "platform evacuate nmem0 --to @. --apply", Steps),
    change(
        Namespaces,
        "platform evacuate nmem0 --to @. --apply",
        "platform evacuate nmem0 --return --apply",
        Steps,
    ),
    change(Namespaces, "", "platform replace nmem0 --to @. --apply", Steps),
    change(Namespaces, "", "platform extend namespace0.2 --size 96M --apply", Steps),
    change(Modules, "", "ipmctl create -f -goal", Same),
    change(Modules, "ipmctl create -f -goal", "ipmctl delete -goal", Same),
    change(Region, "", "ipmctl delete -f -pcd Config", Same),
    change(Region, "", "ipmctl set -f -sensor MediaTemperature AlarmThreshold=80", Same),
    change(Region, "", "ipmctl set -dimm DirtyShutdown=1", Same),
    change(Region, "", "ipmctl set -preferences CLI_DEFAULT_DIMM_ID=UID CLI_DEFAULT_SIZE=AUTO", Same),
    change(Region, "", "ipmctl load -f -source @firmware -dimm", Same),
    change(Region, DUMP, "ipmctl load -f -source @configuration -goal", Same),
    change(Region, "", DUMP, Same),
    change(Region, "", "ndctl create-namespace -m fsdax -s 256M -n data", Random),
    change(Namespaces, "", "ndctl create-namespace -f -e namespace0.0 -m sector", Random),
    change(Namespaces, "", "ndctl destroy-namespace -f namespace0.0", Same),
    change(Namespaces, "", "ndctl disable-namespace namespace0.0", Same),
    change(Namespaces, "ndctl disable-namespace all", "ndctl enable-namespace namespace0.0", Same),
    change(Namespaces, "", "ndctl disable-region region0", Same),
    change(Namespaces, "ndctl disable-region all", "ndctl enable-region region0", Same),
    change(Namespaces, "ndctl disable-region all", "ndctl zero-labels nmem0", Same),
    change(Namespaces, "ndctl disable-region all;ndctl zero-labels nmem0", "ndctl init-labels nmem0", Same),
    change(
        Namespaces,
        "ndctl disable-region all;ndctl read-labels nmem0 -o @labels;ndctl zero-labels nmem0",
        "ndctl write-labels nmem0 -i @labels",
        Same,
    ),
    change(Region, "ndctl disable-region all", "ndctl disable-dimm nmem0", Same),
    change(Region, "ndctl disable-region all;ndctl disable-dimm nmem0", "ndctl enable-dimm nmem0", Same),
    change(
        Namespaces,
        "ndctl disable-namespace all",
        "ndctl write-infoblock namespace0.0 -m devdax -a 2M -u 6a2f9a3e-71d5-4d07-9f0a-0f0d9f3c6a11",
        Same,
    ),
    change(Namespaces, "", "ndctl inject-error namespace0.0 -B 9 -n 1", Same),
    change(Namespaces, "ndctl inject-error namespace0.0 -B 9 -n 1", "ndctl clear-errors namespace0.0", Same),
    change(Namespaces, "ndctl inject-error namespace0.0 -N -B 9 -n 1", "ndctl start-scrub", Same),
    change(Modules, "", "ndctl inject-smart -m 90 nmem0", Same),
    change(Modules, QUIET, MONITOR, Steps),
    change(Modules, "", "ndctl update-firmware nmem0 -f @firmware", Same),
    change(Modules, "ndctl update-firmware nmem0 -f @firmware", "ndctl activate-firmware", Same),
    change(Keys, "", "ndctl setup-passphrase nmem0 -k user:nvdimm-master", Random),
    change(Keys, SETUP, "ndctl update-passphrase nmem0", Random),
    change(Keys, SETUP, "ndctl remove-passphrase nmem0", Random),
    change(Keys, SETUP, "ndctl freeze-security nmem0", Random),
    change(Keys, SETUP, "ndctl sanitize-dimm nmem0 -c", Random),
    change(Keys, "", "ndctl sanitize-dimm nmem0 --overwrite", Random),
    change(Keys, OVERWRITE, "ndctl wait-overwrite nmem0", Random),
    change(Keys, "ndctl setup-passphrase nmem0 -k user:nvdimm-master;platform reboot", LOAD_KEYS, Random),
    change(Namespaces, "", "daxctl reconfigure-device -m system-ram -N dax0.1", Same),
    change(
        Namespaces,
        "daxctl reconfigure-device -m system-ram -N dax0.1",
        "daxctl online-memory dax0.1",
        Same,
    ),
    change(
        Namespaces,
        "daxctl reconfigure-device -m system-ram -N dax0.1;daxctl online-memory dax0.1",
        "daxctl offline-memory dax0.1",
        Same,
    ),
    change(Namespaces, "", "daxctl disable-device dax1.0", Same),
    change(Namespaces, "daxctl disable-device dax1.0", "daxctl enable-device dax1.0", Same),
    change(Namespaces, TWO_RESERVED, "daxctl create-device", Same),
    change(Namespaces, THREE_RESERVED, "daxctl destroy-device -f dax1.1", Same),
    change(Cxl, "", CXL_REGION, Random),
    change(Cxl, CXL_REGION, "cxl disable-region all", Random),
    change(
        Cxl,
        "cxl create-region -m -d decoder0.0 -s 512M mem0 mem2;cxl disable-region all",
        "cxl enable-region all",
        Random,
    ),
    change(Cxl, CXL_REGION, "cxl destroy-region -f all", Random),
    change(Cxl, "", "cxl reserve-dpa -s 256M mem0", Same),
    change(Cxl, "cxl reserve-dpa -s 256M mem0", "cxl free-dpa mem0", Same),
    change(Cxl, "", "cxl set-partition mem1", Same),
    change(Cxl, "cxl disable-memdev -f mem0", "cxl write-labels mem0 -i @firmware", Same),
    change(
        Cxl,
        "cxl disable-memdev -f mem0;cxl write-labels mem0 -i @firmware",
        "cxl zero-labels mem0",
        Same,
    ),
    change(Cxl, "", "cxl disable-memdev -f mem0", Same),
    change(Cxl, "cxl disable-memdev -f mem0", "cxl enable-memdev mem0", Same),
    change(Cxl, "", "cxl disable-port -f port2", Same),
    change(Cxl, "cxl disable-port -f port2", "cxl enable-port -m port2", Same),
    change(Cxl, "", "cxl inject-media-poison mem0 -a 0x1000", Same),
    change(Cxl, "cxl inject-media-poison mem0 -a 0x1000", "cxl clear-media-poison mem0 -a 0x1000", Same),
    change(Cxl, "", "cxl disable-bus -f ACPI.CXL", Same),
];

/// Commands that change no machine.
pub(super) const UNCHANGING: [&str; 21] = [
    "platform template",
    "platform show",
    "platform image show",
    "platform df",
    "platform where",
    "platform e820",
    "ipmctl show",
    "ipmctl start",
    "ndctl list",
    "ndctl check-namespace",
    "ndctl check-labels",
    "ndctl read-labels",
    "ndctl read-infoblock",
    "ndctl wait-scrub",
    "ndctl version",
    "daxctl list",
    "cxl list",
    "cxl read-labels",
    "cxl version",
    "ipmctl version",
    "ipmctl help",
];
