//! `lode ndctl inject-smart`, and the reports of modules in the listings of ndctl and ipmctl.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::emulated::Emulated;
use crate::program::RunResult;
use serde_json::Value;

/// Returns a machine with two modules.
fn machine() -> Emulated {
    Emulated::included("lab-pair")
}

fn inject(machine: &Emulated, words: &str) -> RunResult {
    machine.ndctl(&format!("inject-smart {words}"))
}

fn health_of(machine: &Emulated, module: &str) -> Value {
    let listed = machine.ndctl(&format!("list -DH -d {module}")).success();
    serde_json::from_str::<Value>(&listed).unwrap()[0]["health"].clone()
}

fn sensors(machine: &Emulated) -> String {
    machine.run("ipmctl", "show -sensor -dimm 0x0001").success()
}

/// The output is that of `list -DH`, with ndctl's keys in ndctl's order.
#[test]
fn injected_smart_is_listed() {
    let machine = machine();
    let before = health_of(&machine, "nmem0");
    let words = "--media-temperature=90.9 -M 80 -s 40 --ctrl-temperature-alarm=off -f nmem0";
    let printed = inject(&machine, words).success();
    assert_eq!(printed, machine.run("ndctl", "list -DHi -d nmem0").success());
    let health = printed.split("\"health\":{").nth(1).unwrap();
    let lines: Vec<&str> = health.lines().skip(1).map(|line| line.trim().trim_end_matches(',')).collect();
    let expected = [
        "\"health_state\":\"fatal\"",
        "\"temperature_celsius\":90.0",
        "\"controller_temperature_celsius\":35.0",
        "\"spares_percentage\":40",
        "\"alarm_temperature\":true",
        "\"alarm_controller_temperature\":false",
        "\"alarm_spares\":true",
        "\"alarm_enabled_media_temperature\":true",
        "\"temperature_threshold\":80.0",
        "\"alarm_enabled_ctrl_temperature\":false",
        "\"alarm_enabled_spares\":true",
        "\"spares_threshold\":50",
        "\"life_used_percentage\":60",
        "\"shutdown_state\":\"clean\"",
        "\"shutdown_count\":0",
    ];
    assert_eq!(lines[..expected.len()], expected);
    assert!(sensors(&machine).contains("90C"), "ipmctl reports the same: {}", sensors(&machine));
    assert_eq!(health_of(&machine, "nmem1"), before, "another module");
    let human = inject(&machine, "-u -N --ctrl-temperature-alarm on -M 82 nmem0").success();
    assert!(human.starts_with("{\n  \"dev\":\"nmem0\""), "{human}");
    assert_eq!(health_of(&machine, "nmem0"), before);
}

#[test]
fn unsafe_shutdown_is_found_at_next_start() {
    let machine = machine();
    inject(&machine, "-U nmem0").success();
    let shutdown = || {
        let health = health_of(&machine, "nmem0");
        (health["shutdown_state"].clone(), health["shutdown_count"].clone())
    };
    assert_eq!(shutdown(), ("clean".into(), 0.into()));
    for state in ["dirty", "clean"] {
        machine.start();
        assert_eq!(shutdown(), (state.into(), 1.into()));
    }
    let listed = machine.run("ipmctl", "show -sensor LatchedDirtyShutdownCount -dimm 0x0001").success();
    assert!(listed.contains("| 1 "), "{listed}");
}

#[test]
fn ipmctl_shows_thresholds_and_alarms() {
    let machine = machine();
    inject(&machine, "-S 7 --spares-alarm off -c -3 nmem0").success();
    let xml = machine.run("ipmctl", "show -a -o nvmxml -sensor -dimm 0x0001").success();
    let sensor = |kind: &str| {
        let found = xml.split("<Sensor>").find(|part| part.contains(&format!("<Type>{kind}<"))).unwrap();
        found.split_whitespace().collect::<String>()
    };
    let spares = sensor("PercentageRemaining");
    assert!(spares.contains("<AlarmThreshold>7%<") && spares.contains(">0</"), "{spares}");
    let media = sensor("MediaTemperature");
    assert!(media.contains("<AlarmThreshold>82C<") && media.contains(">1</"), "{media}");
    assert!(sensor("ControllerTemperature").contains("<CurrentValue>-3C<"));
    let fatal =
        |machine: &Emulated| machine.run("ipmctl", "show -dimm 0x0001").success().contains("Fatal failure");
    assert!(!fatal(&machine));
    inject(&machine, "-f nmem0").success();
    assert!(fatal(&machine));
}

#[test]
fn invalid_smart_options_are_refused() {
    let machine = machine();
    for (words, code, said) in [
        ("nmem0", 2, "--media-temperature"),
        ("-f", 2, "DIMM"),
        ("-f --fatal-uninject nmem0", 2, "cannot be used with"),
        ("-N -m 50 nmem0", 2, "cannot be used with"),
        ("-m hot nmem0", 2, "give degrees Celsius, as 52"),
        ("-m inf nmem0", 2, "no module has such a temperature"),
        ("-s 1.5 nmem0", 2, "--spares"),
        ("--spares-alarm maybe nmem0", 2, "maybe"),
        ("-f region0", 2, "is not the name of a nmem"),
        ("-f nmem9", 1, "there is no module nmem9; `lode ndctl list -Di`"),
        ("-s 101 nmem0", 1, "a share of spares can't be 101 %: give 0 to 100"),
        ("-M 3000 nmem0", 1, "a media temperature threshold can't be 3000 degrees"),
        ("-f -b ndbus7 nmem0", 1, "there is no bus ndbus7"),
    ] {
        inject(&machine, words).failure(code, &[said]);
    }
    machine.check_fields("ndctl", "inject-smart", "-f nmem0");
}
