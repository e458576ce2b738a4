//! Hints: the next command after an error. The libraries name the fault and know no commands; a hint follows their
//! message.

use lode_fsck::RepairError;
use lode_heap::{GrowthRefusal, HeapError, InDoubtCause, OpenError};
use lode_index::{IndexError, StoreLayout};
use lode_kv::{KvError, LAYOUT_NAME};
use lode_log::pmdk::{PmemLogError, PmemLogPoolError};
use lode_log::{AppendLogError, LogPoolError};
use lode_platform::cxl::CxlError;
use lode_platform::dax::DaxError;
use lode_platform::firmware::FirmwareError;
use lode_platform::goal::GoalError;
use lode_platform::image::{ImageError, ImageErrorKind};
use lode_platform::info_block::InfoBlockFault;
use lode_platform::ipmctl::ShowError;
use lode_platform::machine::ModuleError;
use lode_platform::media_error::MediaFault;
use lode_platform::namespace::NamespaceError;
use lode_platform::plan::{PlanError, RuleError};
use lode_platform::relocate::RelocateError;
use lode_platform::security::SecurityError;
use lode_platform::smart::SmartError;
use lode_platform::sysfs::SysfsError;
use lode_platform::{DirectoryError, PlatformError};
use lode_pmem::PmemError;
use lode_pool::PoolError;
use lode_volume::{Occupant, VolumeError};

/// The hint for damage whose extent the error does not tell.
pub(crate) const CHECK_POOL: &str = "; `lode pool check` shows how far";

/// The hint where a pool holds neither keys nor a store.
const DUMP_TYPED: &str =
    "; `lode pool dump --typed` prints typed data, with the trees beside it, which these commands don't read";

/// The hint where no log is.
const NO_LOG: &str = "; make one with `lode log create`";
/// The step after a full log, for a user without a program of their own.
const FULL_LOG: &str = " in a program, or go on in another one";

/// Returns the hint that follows the message of an error of a store.
pub(crate) fn store_hint(error: &KvError) -> &'static str {
    match error {
        KvError::Pool(OpenError::Pool(error)) => match error.cause() {
            PoolError::Layout { found, .. }
                if ![StoreLayout::NAME, LAYOUT_NAME].contains(&found.as_str()) =>
            {
                DUMP_TYPED
            }
            _ => pool_hint(error),
        },
        KvError::NotCopied { .. } => DUMP_TYPED,
        KvError::Pool(OpenError::Heap { error, .. }) => heap_hint(error),
        KvError::Index(error) | KvError::Unproven(error) | KvError::Refused { error, .. } => {
            index_hint(error)
        }
        KvError::Follow(error) if error.is_damage() => CHECK_POOL,
        KvError::Count { .. } | KvError::Load { .. } => CHECK_POOL,
        KvError::TreeNeeded { names } | KvError::NoTree { names, .. } if !names.is_empty() => {
            " with --tree; `lode pool stats` lists them"
        }
        KvError::InTree { error, .. } => store_hint(error),
        KvError::NoNames => " (leave out --tree)",
        KvError::Line { .. } => " with --on-error skip",
        KvError::InputTruncated { .. } => ", as any `lode kv put` does",
        KvError::Threads(_) => ", as by --threads 1",
        _ => "",
    }
}

/// Returns the hint that follows the message of an error of a pool's file or headers.
pub(crate) fn pool_hint(error: &PoolError) -> &'static str {
    match error.cause() {
        error if error.has_no_pool() => " with `lode pool create`",
        PoolError::Truncated { .. } | PoolError::DirtyShutdown(_) => " (`lode pool repair`)",
        PoolError::Memory { .. } => " (`lode pool check`)",
        PoolError::DurabilityTooWeak { .. } => " with --durability",
        PoolError::NotDurable { .. } => " with --durability none",
        PoolError::Layout { found, .. } if found.as_str() == StoreLayout::NAME => {
            "; programs change a store, and `lode kv get`, `scan`, `count` and `export` read it with --tree"
        }
        PoolError::Occupied => " (--overwrite-device, where a command has it)",
        _ => "",
    }
}

/// Returns the hint that follows the message of an error of a volume.
pub(crate) fn volume_hint(error: &VolumeError) -> &'static str {
    match error.cause() {
        VolumeError::Absent => "; make one with `lode volume create`",
        VolumeError::Table(_) if error.is_damage() => "; `lode volume check` shows how far",
        VolumeError::Exists => ", or make the volume in it with --in-place",
        VolumeError::Occupied { found: Occupant::Labels, .. } => {
            ": `lode platform image export --for virtio-pmem` makes one without labels"
        }
        VolumeError::Occupied { is_device: true, .. } => " with --overwrite-device",
        _ if error.is_in_use() => "; `lode volume info` works meanwhile",
        VolumeError::Medium(PmemError::Volatile { .. }) => " with --durability none",
        VolumeError::Raw { .. } => "; restore the volume from a copy",
        _ => "",
    }
}

/// Returns the hint that follows the message of an error of a log.
pub(crate) fn log_hint(error: &LogPoolError) -> &'static str {
    match error {
        LogPoolError::Pool(error) if error.has_no_pool() => NO_LOG,
        LogPoolError::Pool(error) if matches!(error.cause(), PoolError::Truncated { .. }) => "",
        LogPoolError::Pool(error) => pool_hint(error),
        LogPoolError::Medium(error) => log_medium_hint(error),
        LogPoolError::Log { error: AppendLogError::Full { .. }, .. } => FULL_LOG,
        _ => "",
    }
}

/// Returns the hint that follows the message of an error of a log pool of PMDK.
pub(crate) fn pmem_log_hint(error: &PmemLogPoolError) -> &'static str {
    match error {
        PmemLogPoolError::Medium(error) => log_medium_hint(error),
        PmemLogPoolError::Log { error: PmemLogError::Full { .. }, .. } => FULL_LOG,
        _ => "",
    }
}

fn log_medium_hint(error: &PmemError) -> &'static str {
    match error {
        PmemError::Volatile { .. } => " with --durability none",
        PmemError::Empty { .. } => NO_LOG,
        _ => "",
    }
}

/// Returns the hint that follows the message of an error of a tree.
pub(crate) fn index_hint(error: &IndexError) -> &'static str {
    match error {
        IndexError::Corrupt { .. } => CHECK_POOL,
        IndexError::Fault(fault) => heap_hint(&HeapError::Fault(*fault)),
        IndexError::Heap(error) => heap_hint(error),
        _ => "",
    }
}

/// Returns the hint that follows the message of an error of a repair.
pub(crate) fn repair_hint(error: &RepairError) -> &'static str {
    match error {
        RepairError::Pool(error) => pool_hint(error),
        RepairError::Heap(error) => heap_hint(error),
        RepairError::Layout(error) => error.downcast_ref().map_or("", index_hint),
        _ => "",
    }
}

fn heap_hint(error: &HeapError) -> &'static str {
    match error {
        HeapError::InDoubt(InDoubtCause::WriteBack(_)) => " (`lode pool repair`)",
        HeapError::InDoubt(_) | HeapError::Poisoned => {
            "; look for errors of the device in the kernel's log, then run it again"
        }
        HeapError::Fault(_) => "; run `lode pool check` to see what is affected",
        HeapError::Corrupt { .. } => CHECK_POOL,
        HeapError::CannotGrow { refusal: GrowthRefusal::Maximum { .. }, .. } => {
            " with `lode pool grow --size-max`"
        }
        HeapError::CannotGrow { refusal: GrowthRefusal::AddressSpace { .. }, .. } => " with `lode pool grow`",
        HeapError::CannotGrow { refusal: GrowthRefusal::Extents { .. }, .. } => {
            " with `lode kv export` and `lode kv load`"
        }
        _ => "",
    }
}

/// Returns the text that follows the message of an error of a machine.
pub(crate) fn platform_hint(error: &PlatformError) -> String {
    match error {
        PlatformError::Module(error) => module_hint(error).to_owned(),
        PlatformError::Goal(error) | PlatformError::Plan(PlanError::Rule(RuleError::Goal(error))) => {
            goal_hint(error)
        }
        PlatformError::Namespace(error)
        | PlatformError::Media(MediaFault::Namespace(error))
        | PlatformError::Plan(PlanError::Rule(RuleError::Namespace(error))) => namespace_hint(error),
        PlatformError::Dax(error) => dax_hint(error),
        PlatformError::Cxl(error) => cxl_hint(error),
        PlatformError::InfoBlock(InfoBlockFault::Enabled { name }) => {
            format!(" with `lode ndctl disable-namespace {name}`")
        }
        PlatformError::InfoBlock(InfoBlockFault::Namespace(error)) => namespace_hint(error),
        PlatformError::Media(MediaFault::Poisoned { module, .. }) => {
            let list = if module.cxl_device().is_some() { "cxl list -RML" } else { "ndctl list -RM" };
            format!("; `lode {list}` lists what is known to be lost")
        }
        PlatformError::Security(error) => security_hint(error).to_owned(),
        PlatformError::Smart(SmartError::Module(error)) => module_hint(error).to_owned(),
        PlatformError::Firmware(error) => firmware_hint(error).to_owned(),
        PlatformError::Directory(DirectoryError::NoState { .. }) => " with `lode platform init`".to_owned(),
        PlatformError::Directory(DirectoryError::InUse { .. }) => " with --wait".to_owned(),
        PlatformError::Image(error) => image_hint(error),
        PlatformError::Relocate(error) => relocate_hint(error),
        PlatformError::Show(error)
        | PlatformError::Sysfs(SysfsError::Show(error))
        | PlatformError::Plan(PlanError::Sysfs(SysfsError::Show(error))) => show_hint(error).to_owned(),
        _ => String::new(),
    }
}

fn relocate_hint(error: &RelocateError) -> String {
    match error {
        RelocateError::NoRoom { unconfigured, .. } if !unconfigured.is_empty() => {
            " with --to; `lode platform extend` configures modules".to_owned()
        }
        RelocateError::NoRoom { .. } | RelocateError::FileExists { .. } => " with --to".to_owned(),
        RelocateError::Unlabelled { device } => {
            format!(" with `lode platform image export {device} FILE` and `lode ndctl init-labels`")
        }
        RelocateError::Disabled { device } => {
            format!(": `ndctl enable-namespace {device}` or `ndctl destroy-namespace {device}`")
        }
        RelocateError::FileChanged { .. }
        | RelocateError::HomeDiffers { .. }
        | RelocateError::PlaceGone { .. }
        | RelocateError::DataLost { .. }
        | RelocateError::ForeignLabels { .. } => " with --force".to_owned(),
        RelocateError::Passphrase { .. } => " with `lode ndctl remove-passphrase`".to_owned(),
        RelocateError::GoalPending { .. } => {
            " with `lode platform reboot`, or `lode ipmctl delete -goal`".to_owned()
        }
        RelocateError::ReturnBegun { module } => format!(" with `lode platform evacuate {module} --return`"),
        RelocateError::NothingNew => " with --with".to_owned(),
        RelocateError::SlotTaken { .. } => "; `lode ipmctl show -topology` lists the slots".to_owned(),
        _ => String::new(),
    }
}

fn module_hint(error: &ModuleError) -> &'static str {
    match error {
        ModuleError::UnknownModule { .. } | ModuleError::LargeHandle { .. } => {
            "; `lode ipmctl show -dimm` lists them"
        }
        ModuleError::UnknownSocket { .. } => "; `lode ipmctl show -topology` lists the modules",
        ModuleError::UnknownDevice { .. } => "; `lode ndctl list -Di` lists them",
        ModuleError::DeadModule { .. } => " with -dimm",
        ModuleError::LockedModule { .. } => {
            " with -dimm; `lode ndctl load-keys` unlocks it if its key is stored"
        }
        ModuleError::OverwrittenModule { .. } => " with -dimm; `lode ndctl wait-overwrite` waits",
        _ => "",
    }
}

fn firmware_hint(error: &FirmwareError) -> &'static str {
    match error {
        FirmwareError::Module(error) => module_hint(error),
        FirmwareError::Unsupported { .. } => "; `lode ndctl list -DF` lists it",
        FirmwareError::Staged { .. } => " with -i",
        FirmwareError::NoActivation { .. } | FirmwareError::NeedsStart { .. } => {
            " with `lode platform reboot`"
        }
        FirmwareError::Overflow { .. } => " with -i",
        FirmwareError::NotArmed { .. } => " with `lode ndctl update-firmware -A`",
        FirmwareError::Timeout { .. } => " with --no-idle",
        _ => "",
    }
}

fn security_hint(error: &SecurityError) -> &'static str {
    match error {
        SecurityError::Module(error) => module_hint(error),
        SecurityError::File(_) => "; check the path",
        SecurityError::RegionActive { .. } => " with `lode ndctl disable-region`",
        SecurityError::Overwriting { .. } => " with `lode ndctl wait-overwrite`",
        SecurityError::Frozen { .. } | SecurityError::Limit { .. } => " with `lode platform reboot`",
        SecurityError::Disabled { .. } => " with `lode ndctl setup-passphrase`",
        SecurityError::NotZero { .. } => ", with --zero-key",
        SecurityError::MasterRemoval { .. } => " with `lode ndctl update-passphrase -m`",
        SecurityError::NoKek { .. } => " with `keyctl add user NAME BYTES @u`, or `lode ndctl load-keys`",
        SecurityError::KeyPresent { .. } => " with `keyctl purge`; `lode platform reboot` unlinks it, too",
        _ => "",
    }
}

fn goal_hint(error: &GoalError) -> String {
    match error {
        GoalError::Module(error) => module_hint(error).to_owned(),
        GoalError::GoalPending { .. } => " with `lode ipmctl delete -goal`".to_owned(),
        GoalError::ModuleInUse { namespace, .. } => {
            format!(" with `lode ndctl destroy-namespace {namespace}`")
        }
        GoalError::SetSplit { .. } | GoalError::PartOfSocket { .. } => " with -dimm".to_owned(),
        _ => String::new(),
    }
}

fn namespace_hint(error: &NamespaceError) -> String {
    match error {
        NamespaceError::Module(error) => module_hint(error).to_owned(),
        NamespaceError::UnknownRegion { .. } => "; `lode ndctl list -R` lists them".to_owned(),
        NamespaceError::UnknownNamespace { .. } => "; `lode ndctl list -Ni` lists them".to_owned(),
        NamespaceError::ModuleDisabled { .. } => " with `lode ndctl enable-dimm`".to_owned(),
        NamespaceError::RegionDisabled { region } => {
            format!(" with `lode ndctl enable-region region{region}`")
        }
        NamespaceError::NamespaceDisabled { name } => format!(" with `lode ndctl enable-namespace {name}`"),
        NamespaceError::RegionActive { region, .. } => {
            format!(" with `lode ndctl disable-region region{region}`")
        }
        NamespaceError::NoLabels { .. } => " with `lode ndctl init-labels`".to_owned(),
        NamespaceError::NoSlots { .. } => " with `lode ndctl destroy-namespace`".to_owned(),
        NamespaceError::Autolabel { .. } => " with --no-autolabel".to_owned(),
        NamespaceError::NamespaceActive { .. } => " with -f".to_owned(),
        NamespaceError::MemoryOnline { device } => format!(" with `lode daxctl offline-memory {device}`"),
        NamespaceError::LabelsExist { .. } => "; -f does it".to_owned(),
        NamespaceError::Misaligned { fitting, .. } => format!(" (--size={fitting})"),
        _ => String::new(),
    }
}

fn dax_hint(error: &DaxError) -> String {
    match error {
        DaxError::UnknownDevice { .. } => "; `lode daxctl list -i` lists them".to_owned(),
        DaxError::UnknownRegion { .. } => "; `lode daxctl list -R` lists them".to_owned(),
        DaxError::NotMemory { device } => {
            format!(" with `lode daxctl reconfigure-device -m system-ram {device}`")
        }
        DaxError::IsMemory { device } => {
            format!(" with `lode daxctl reconfigure-device -m devdax {device}`")
        }
        DaxError::Online { device, .. } => format!(" with `lode daxctl offline-memory {device}`"),
        DaxError::Active { device } => format!(" with `lode daxctl disable-device {device}`"),
        DaxError::Empty { device } | DaxError::First { device } => {
            format!(" with `lode daxctl reconfigure-device -s SIZE {device}`")
        }
        DaxError::OfNamespace { .. } | DaxError::Undivided { .. } => {
            " with `lode ndctl create-namespace`".to_owned()
        }
        _ => String::new(),
    }
}

fn cxl_hint(error: &CxlError) -> String {
    match error {
        CxlError::UnknownDecoder { .. } | CxlError::NotCapable { .. } => {
            "; `lode cxl list -D -d root` lists them, and what they take".to_owned()
        }
        CxlError::NoDevices { .. } | CxlError::UnknownDevice { .. } => {
            "; `lode cxl list -Mi` lists them".to_owned()
        }
        CxlError::UnknownRegion { .. } => "; `lode cxl list -Ri` lists them".to_owned(),
        CxlError::UnknownPort { .. } => "; `lode cxl list -BPE` lists them".to_owned(),
        CxlError::Active { region } => format!("; `lode cxl disable-region {region}` does"),
        CxlError::ActiveDevice { .. } => "; --force disables it, and the regions that it is in".to_owned(),
        CxlError::ActivePort { port, .. } => {
            format!("; `lode cxl list -M -p {port}` lists them, and --force disables them, too")
        }
        CxlError::PortDisabled { port: 0, .. } => ": a start does, `lode platform reboot`".to_owned(),
        CxlError::PortDisabled { port, .. } => format!(" with `lode cxl enable-port port{port}`"),
        CxlError::Disabled { device } => format!(" with `lode cxl enable-memdev mem{device}`"),
        CxlError::NoFreeDecoder { .. }
        | CxlError::NoSuitableDecoder { .. }
        | CxlError::NoSuchDecoder { .. } => "; `lode cxl list -Di -d endpoint` lists the decoders".to_owned(),
        CxlError::LabelsInUse { device } => {
            format!("; disable the device first, with `lode cxl disable-memdev -f mem{device}`")
        }
        CxlError::NoCapacity { device } => format!("; `lode cxl list -I -m mem{device}` tells what it has"),
        _ => String::new(),
    }
}

fn image_hint(error: &ImageError) -> String {
    match error {
        ImageError::NotFsdax { name } => {
            format!(" with `lode ndctl create-namespace -e {name} -m fsdax -f`")
        }
        ImageError::Image { kind, .. } => match **kind {
            ImageErrorKind::Labels { .. } => " with --label-size".to_owned(),
            ImageErrorKind::NoOrigin => " with --into".to_owned(),
            ImageErrorKind::BeyondEnd { .. }
            | ImageErrorKind::DataInPadding { .. }
            | ImageErrorKind::Misaligned { .. } => "; --partial imports the rest".to_owned(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

fn show_hint(error: &ShowError) -> &'static str {
    match error {
        ShowError::UnknownValue { .. } => "; -a shows all",
        ShowError::Module(error) => module_hint(error),
        _ => "",
    }
}
