//! With `--json` every command prints objects whose strings are words: none is a table, a list of lines or JSON.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::cxl_listings_match_cxl::MACHINE;
use crate::modules_are_locked::has_keyring;
use crate::object_pools_are_recovered::make_crashed;
use crate::program::{RunResult, command, json_fields, text};
use crate::typed_pools_are_printed::make_shop;
use lode_platform::machine::Machine;
use lode_testing::firmware_image;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A run of each command, in this order, on one machine and one folder: `@name` is a file in it.
const RUNS: [&str; 117] = [
    "platform init @machine.toml",
    "platform template",
    "platform e820 @map --plan 1G",
    "platform plan --fsdax 256M",
    "ipmctl show -topology",
    "ipmctl show -dimm",
    "ipmctl show -a -dimm",
    "ipmctl show -memoryresources",
    "ipmctl show -sensor",
    "ipmctl show -goal",
    "ipmctl show -region",
    "ipmctl create -f -goal",
    "ipmctl delete -goal",
    "ipmctl create -f -goal",
    "ipmctl show -goal",
    "ipmctl show -a -goal",
    "ipmctl show -dimm -pcd Config",
    "platform reboot",
    "ipmctl show -region",
    "ipmctl show -dimm -pcd Config",
    "ipmctl show -system -capabilities",
    "ipmctl show -firmware",
    "ipmctl show -socket",
    "ipmctl show -preferences",
    "ipmctl version",
    "ipmctl start -diagnostic",
    "ipmctl set -f -sensor MediaTemperature AlarmThreshold=80",
    "ipmctl load -x -source @firmware -dimm",
    "ipmctl dump -destination @configuration -system -config",
    "ipmctl load -f -source @configuration -goal",
    "ipmctl delete -goal",
    "ndctl create-namespace -m fsdax -s 256M -n data",
    "ndctl create-namespace -m devdax -s 256M",
    "ndctl create-namespace -m sector -s 64M",
    "ndctl list -BDRNHXMi",
    "ndctl list -v",
    "daxctl list -DR",
    "daxctl list -Mi",
    "daxctl reconfigure-device -m system-ram -N dax0.1",
    "daxctl online-memory dax0.1",
    "daxctl offline-memory dax0.1",
    "daxctl reconfigure-device -m devdax all",
    "daxctl disable-device dax1.0",
    "daxctl reconfigure-device -s 512M dax1.0",
    "daxctl enable-device dax1.0",
    "daxctl create-device",
    "daxctl destroy-device -f dax1.1",
    "platform show",
    "platform show --html @page.html",
    "platform show --svg @machine.svg",
    "platform mkfs namespace0.0 ext4",
    "platform df",
    "platform where pmem0:8",
    "platform where namespace0.0",
    "platform image export region0 @region.img",
    "platform image show @region.img",
    "platform image import @region.img",
    "platform evacuate nmem0 --to @. --apply",
    "platform evacuate nmem0 --return --apply",
    "platform replace nmem0 --to @.",
    "platform extend namespace0.2 --size 96M",
    "ndctl inject-error namespace0.0 -B 9 -n 1",
    "ndctl clear-errors all",
    "ndctl version",
    "ndctl inject-smart -m 90 nmem0",
    "ndctl update-firmware nmem0 -f @firmware",
    "ndctl activate-firmware --dry-run",
    "ndctl start-scrub",
    "ndctl wait-scrub",
    "ndctl check-namespace -f namespace0.2",
    "ndctl disable-namespace all",
    "ndctl read-infoblock all",
    "ndctl write-infoblock -o @infoblock -s 1G",
    "ndctl enable-namespace all",
    "ndctl destroy-namespace -f all",
    "ndctl disable-region all",
    "ndctl enable-region all",
    "ndctl disable-region all",
    "ndctl disable-dimm all",
    "ndctl enable-dimm all",
    "ndctl check-labels all",
    "ndctl read-labels nmem0 -o @labels",
    "ndctl write-labels nmem0 -i @labels",
    "ndctl zero-labels all",
    "ndctl init-labels all",
    "ipmctl delete -f -pcd Config",
    "pool create @pool --size 8MiB",
    "kv load @pool @pairs",
    "kv put @pool key value",
    "kv get @pool key",
    "kv count @pool",
    "kv scan @pool",
    "kv export @pool",
    "kv delete @pool key",
    "pool info @pool",
    "pool stats @pool",
    "pool dump @pool",
    "pool check @pool",
    "pool repair @pool",
    "pool grow @pool --size 9MiB",
    "pool copy @pool @copy",
    "pool shrink @pool",
    "pool types @typed",
    "pool dump @typed --typed",
    "pool migrate @typed --status",
    "pool recover @objects",
    "volume create @volume --size 16MiB --format atomic",
    "volume info @volume",
    "volume grow @volume --size 17MiB",
    "volume export @volume @blocks",
    "volume import @volume @blocks",
    "volume check @volume",
    "volume repair @volume",
    "log create @log --size 1MiB",
    "log append @log @lines",
    "log check @log",
    "log walk @log",
];

/// Runs that take a while, or print a file of another language.
const MORE: [&str; 5] = [
    "log tail @log",
    "volume bench --size 64MiB --seconds 0.01 --durability line @.",
    "crash log --images 40 --durability line",
    "demo --folder @. --words @lines --kills 0",
    "completions bash",
];

/// Runs that need the kernel's keyring.
const KEYS: [&str; 9] = [
    "ndctl disable-region all",
    "ndctl load-keys -p @keys",
    "ndctl setup-passphrase all -k user:nvdimm-master",
    "ndctl update-passphrase all",
    "ndctl remove-passphrase nmem0",
    "ndctl freeze-security nmem1",
    "ndctl sanitize-dimm nmem0 --overwrite",
    "ndctl wait-overwrite all",
    "platform reboot",
];

/// Runs on a machine with CXL devices.
const CXL: [&str; 22] = [
    "platform init @cxl.toml",
    "cxl list -vvv",
    "cxl create-region -m -d decoder0.0 -s 512M mem0 mem2",
    "cxl list -R",
    "cxl disable-region all",
    "cxl enable-region all",
    "cxl destroy-region -f all",
    "cxl reserve-dpa -s 256M mem0",
    "cxl free-dpa mem0",
    "cxl set-partition mem1",
    "cxl inject-media-poison mem0 -a 0x1000",
    "cxl list -ML",
    "cxl clear-media-poison mem0 -a 0x1000",
    "cxl read-labels mem0 -s 1",
    "cxl disable-memdev -f mem0",
    "cxl write-labels mem0 -i /dev/null",
    "cxl zero-labels mem0",
    "cxl enable-memdev mem0",
    "cxl disable-port -f port2",
    "cxl enable-port -m port2",
    "cxl disable-bus -f ACPI.CXL",
    "cxl version",
];

/// Commands without a run here: two run until they get a signal, one measures by another program, and one runs another.
const LEFT_OUT: [&str; 4] = ["volume-serve", "ndctl-monitor", "bench", "exec"];

/// Fields that hold a file: a shell's program, and a machine file.
const FILES: [&str; 2] = ["script", "machine"];

/// Returns the commands without subcommands, by the names of their pages.
pub(crate) fn leaf_commands() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages: BTreeSet<String> =
        files.filter_map(|file| Some(file.strip_prefix("lode-")?.strip_suffix(".1")?.to_owned())).collect();
    let is_leaf = |page: &&String| !pages.iter().any(|other| other.starts_with(&format!("{page}-")));
    pages.iter().filter(is_leaf).cloned().collect()
}

/// Panics if a string within `value` has several lines, or is a JSON array or object.
#[track_caller]
fn assert_structured(run: &str, name: &str, value: &Value) {
    match value {
        Value::String(text) if !FILES.contains(&name) => {
            assert!(!text.contains('\n'), "{run}: {name} has lines: {text}");
            let parsed = serde_json::from_str::<Value>(text);
            assert!(!parsed.is_ok_and(|json| json.is_array() || json.is_object()), "{run}: {name}: {text}");
        }
        Value::Array(values) => values.iter().for_each(|value| assert_structured(run, name, value)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| assert_structured(run, name, value)),
        _ => {}
    }
}

#[test]
fn all_commands_print_structured_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    fs::write(file("map"), "BIOS-e820: [mem 0x0000000100000000-0x00000001bfffffff] usable\n").unwrap();
    fs::write(file("pairs"), "lode\tstone\n\\xff\t\\xff\n").unwrap();
    fs::write(file("lines"), "lode\nstone\n").unwrap();
    let machine = Machine::included("lab-pair").unwrap();
    let live = machine.replace("[profile]", "firmware_activation = \"live\"\n[profile]");
    let reserved = "\n[[soft_reserved]]\nstart = \"64GiB\"\nsize = \"1GiB\"\n";
    fs::write(file("machine.toml"), live + reserved).unwrap();
    fs::write(file("firmware"), firmware_image([2, 3, 0, 0, 1])).unwrap();
    make_shop(&file("typed"));
    make_crashed(&file("objects"));
    let leaves = leaf_commands();
    let mut ran = BTreeSet::new();
    fs::create_dir(file("keys")).unwrap();
    fs::write(file("keys/nvdimm-master.blob"), "a key of any bytes").unwrap();
    let keys = if has_keyring("all_commands_print_structured_json") { &KEYS[..] } else { &[] };
    fs::write(file("cxl.toml"), MACHINE).unwrap();
    let runs = RUNS.into_iter().chain(MORE).chain(keys.iter().copied()).map(|run| ("state", run));
    for (state, run) in runs.chain(CXL.map(|run| ("cxl", run))) {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => text(&file(name)).to_owned(),
            None => word.to_owned(),
        };
        let words: Vec<String> = run.split(' ').map(word).collect();
        let mut program = command(&words);
        let output = program.arg("--json").env("LODE_STATE", file(state)).output().unwrap();
        let result = RunResult::of(output);
        assert_eq!(result.code, Some(0), "{run}: {result:?}");
        for object in result.json_lines() {
            assert!(object.is_object(), "{run}: {object}");
            assert_structured(run, "", &object);
        }
        let name = run.replace(' ', "-");
        ran.extend(leaves.iter().find(|leaf| name.starts_with(*leaf)).cloned());
    }
    ran.extend(LEFT_OUT.map(str::to_owned));
    if keys.is_empty() {
        let skipped = KEYS.map(|run| run.split(' ').take(2).collect::<Vec<_>>().join("-"));
        ran.extend(skipped.into_iter().filter(|leaf| leaves.contains(leaf)));
    }
    assert_eq!(ran, leaves, "each command has a run");
}

/// Where `--json` stands makes no difference, among the words of ipmctl and of help, too.
#[test]
fn json_option_stands_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let lode =
        |words: &str| RunResult::of(command(words.split(' ')).env("LODE_STATE", &state).output().unwrap());
    lode("platform init lab-pair").success();
    let first = lode("--json ipmctl show -topology").json();
    assert_eq!(json_fields(std::slice::from_ref(&first)), BTreeSet::from(["output".to_owned()]));
    assert_eq!(lode("ipmctl --json show -topology").json(), first);
    assert_eq!(lode("ipmctl show --json -topology").json(), first);
    assert_eq!(lode("ipmctl show -topology --json").json(), first);
    assert_eq!(lode("help --json kv").success(), lode("kv --help").success());
    assert_eq!(lode("--version --json").json()["version"], env!("CARGO_PKG_VERSION"));
    let refused = lode("ipmctl show -dimm -o nvmxml --json").failure(2, &["--json and -output nvmxml"]);
    assert!(serde_json::from_str::<Value>(&refused).unwrap().is_object(), "{refused}");
    // After two dashes, words are values.
    let pool = folder.path().join("pool");
    lode(&format!("pool create {}", text(&pool))).success();
    lode(&format!("kv put {} -- key --json", text(&pool))).success();
    assert_eq!(lode(&format!("kv get {} key", text(&pool))).success(), "--json\n");
}

/// Capacities are numbers of bytes, lists arrays, and values that are not known null.
#[test]
fn ipmctl_values_have_types() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let lode =
        |words: &str| RunResult::of(command(words.split(' ')).env("LODE_STATE", &state).output().unwrap());
    lode("platform init lab-pair").success();
    let show = |words: &str| lode(&format!("ipmctl --json {words}")).json()["output"].take();
    assert_eq!(show("show -region"), serde_json::json!([]), "there is none");
    assert_eq!(show("create -f -goal")[0]["AppDirect1Size"], 1 << 30);
    assert_eq!(show("delete -goal"), serde_json::json!([{"DimmID": "0x0001"}, {"DimmID": "0x0101"}]));
    // The question is no part of the output.
    let asked = lode("ipmctl --json create -goal");
    assert_eq!(asked.out, "");
    asked.failure(1, &["Do you want to continue?", "not confirmed"]);
    show("create -f -goal");
    lode("platform reboot").success();
    let region = show("show -region")[0].take();
    assert_eq!(
        (&region["Capacity"], &region["FreeCapacity"]),
        (&(2_u64 << 30).into(), &(2_u64 << 30).into())
    );
    assert_eq!(region["DimmID"], serde_json::json!(["0x0001", "0x0101"]));
    assert_eq!(show("show -u MiB -region")[0]["Capacity"], 2_u64 << 30, "the unit is that of texts");
    let modules = show("show -a -dimm");
    assert_eq!((&modules[0]["DeviceID"], &modules[0]["IsNew"]), (&Value::Null, &0.into()));
    assert_eq!(
        show("show -d Capacity -dimm")[1],
        serde_json::json!({"DimmID": "0x0101", "Capacity": 1_409_286_144})
    );
    assert_eq!(show("show -sensor MediaTemperature")[0]["Sensor"][0]["CurrentValue"], 33);
    let tables = show("show -dimm -pcd Config")[0]["Tables"].take();
    let sizes: Vec<&Value> =
        tables.as_array().unwrap().iter().map(|table| &table["PmPartitionSize"]).collect();
    let of_member = Value::from(1 << 30);
    assert_eq!(sizes, [&Value::Null, &Value::Null, &of_member, &of_member], "{tables}");
    assert_eq!(tables[0]["ConfigStatus"], 1);
}
