//! The commands of ipmctl beyond goals: firmware, sensors, stored configurations, diagnostics and versions, in its words.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::emulated::Emulated;
use crate::program::{RunResult, lode, lode_with_stdin, text};
use lode_platform::machine::Machine;
use lode_testing::firmware_image;
use std::fs;

fn ipmctl(machine: &Emulated, words: &str) -> RunResult {
    machine.run("ipmctl", words)
}

/// Runs a command that is refused with ipmctl's output and exit code, and a reason.
#[track_caller]
fn refused(machine: &Emulated, words: &str, code: i32, output: &str, why: &str) {
    let result = ipmctl(machine, words);
    assert!(result.out.contains(output), "{words}: no {output:?} in {result:?}");
    result.failure(code, &[why]);
}

#[test]
fn firmware_is_examined_staged_and_shown() {
    let machine = Emulated::included("lab-pair");
    let image = |name: &str, version| {
        fs::write(machine.file(name), firmware_image(version)).unwrap();
        text(&machine.file(name)).to_owned()
    };
    let newer = image("newer", [2, 3, 0, 0, 1]);
    let older = image("older", [2, 1, 0, 0, 1]);
    let other = image("other", [3, 0, 0, 0, 1]);
    let shown = ipmctl(&machine, "show -firmware").success();
    let rows: Vec<&str> = shown.lines().collect();
    assert!(rows[0].contains("ActiveFWVersion") && rows[0].contains("StagedFWVersion"), "{shown}");
    assert!(rows[2].contains("02.02.00.1553") && rows[2].contains("N/A"), "{shown}");
    let examined = ipmctl(&machine, &format!("load -x -source {older} -dimm 0x0001")).success();
    let downgrade = "Load FW on PMem module 0x0001: Downgrade (with confirmation or the force option)\n";
    assert_eq!(examined, format!("{older}: 02.01.00.0001\n{downgrade}"));
    let unsure = ["ipmctl", "--state", text(&machine.state), "load", "-source", &older, "-dimm"];
    let asked = lode_with_stdin(unsure, b"n\n");
    assert!(asked.out.starts_with("Downgrade firmware on PMem module 0x0001.\n"), "{asked:?}");
    asked.failure(1, &["nothing is changed"]);
    let loaded = ipmctl(&machine, &format!("load -source {newer} -dimm")).success();
    let done = "Success, a power cycle is required to activate the FW.";
    assert_eq!(
        loaded,
        format!(
            "Starting update on 2 PMem module(s)...\nLoad FW on PMem module 0x0001: {done}\n\
             Load FW on PMem module 0x0101: {done}\n"
        )
    );
    let staged = ipmctl(&machine, "show -a -firmware -dimm 0x0001").success();
    assert!(
        staged.contains("   StagedFWVersion=02.03.00.0001\n   StagedFWActivatable=0\n   FWUpdateStatus=Staged successfully\n"),
        "{staged}"
    );
    let again = format!("load -source {newer} -dimm 0x0001");
    refused(
        &machine,
        &again,
        1,
        "Error 68 - A firmware image is already staged for execution.",
        "did not take",
    );
    machine.start();
    assert_eq!(
        ipmctl(&machine, "show -d ActiveFWVersion -firmware").success().matches("02.03.00.0001").count(),
        2
    );
    refused(
        &machine,
        &format!("load -source {other} -dimm"),
        1,
        "Error 69 - Failed to validate",
        "did not take",
    );
    let none = machine.file("none");
    for (bytes, fault) in
        [(vec![b'x'; 4096], "module type"), (Vec::new(), "it has 0 B"), (vec![0; 1 << 20], "takes images")]
    {
        fs::write(&none, bytes).unwrap();
        let line = format!("load -source {} -dimm", text(&none));
        refused(&machine, &line, 1, "Error 62 - Image file is not valid", fault);
    }
    refused(&machine, "load -source /nowhere -dimm", 1, "", "check the path");
    refused(&machine, "load -dimm", 201, "Error: Wrong file path.", "name the file with -source");
    refused(
        &machine,
        &format!("load -source {newer}"),
        201,
        "load  [OPTIONS] -source",
        "no command has just these",
    );
}

#[test]
fn alarms_of_sensors_are_set() {
    let machine = Emulated::included("lab-pair");
    let line = "set -f -sensor MediaTemperature -dimm 0x0001 AlarmThreshold=51 AlarmEnabled=1";
    assert_eq!(
        ipmctl(&machine, line).success(),
        "Modify media temperature settings on PMem module 0x0001: Success\n"
    );
    let shown = ipmctl(&machine, "show -sensor MediaTemperature -dimm 0x0001 -a").success();
    assert!(shown.contains("AlarmThreshold=51C") && shown.contains("AlarmEnabled=1"), "{shown}");
    let both = ipmctl(&machine, "set -f -sensor percentageremaining AlarmEnabled=0").success();
    assert_eq!(both.matches("Modify percentage remaining settings on PMem module 0x0").count(), 2, "{both}");
    let range = "set -f -sensor ControllerTemperature AlarmThreshold=103";
    refused(
        &machine,
        range,
        1,
        "Error 72 - Given controller temperature is out of range <0,102>",
        "0 to 102",
    );
    for (line, output) in [
        ("set -sensor MediaTemperature", "Syntax Error: Incomplete syntax."),
        ("set -sensor Health AlarmEnabled=1", "Syntax Error: Incorrect value for target -sensor."),
        (
            "set -sensor MediaTemperature AlarmEnabled=on",
            "Syntax Error: Incorrect value for property AlarmEnabled.",
        ),
        ("set -sensor AlarmEnabled=1", "Modify the alarm threshold(s) for one or more PMem modules."),
        ("set -sensor MediaTemperature MemoryMode=3", "Modify the alarm threshold(s)"),
        ("set -foo", "Syntax Error: Invalid or unexpected token -foo."),
    ] {
        refused(&machine, line, 201, output, "");
    }
    refused(
        &machine,
        "set -f -sensor MediaTemperature -dimm 0x9999 AlarmEnabled=1",
        1,
        "PMem module not found.",
        "0x9999",
    );
    refused(
        &machine,
        "set -dimm AveragePowerReportingTimeConstant=100",
        201,
        "",
        "AveragePowerReportingTimeConstant is not emulated: emulated modules take no power",
    );
}

/// Each injection is seen where modules report it, is logged, and ends.
#[test]
fn injections_are_reported_and_logged() {
    let machine = Emulated::included("lab-pair").interleaved();
    let run = |words: &str| ipmctl(&machine, words).success();
    let none = "No errors found on PMem module 0x0001\nNo errors found on PMem module 0x0101\n";
    assert_eq!(run("show -error Thermal"), none);
    assert_eq!(run("set -dimm 0x0001 Temperature=90"), "Set temperature on PMem module 0x0001: Success\n");
    assert!(run("show -sensor MediaTemperature -dimm 0x0001").contains("90C"));
    let shown = run("show -error Thermal Level=Low");
    let rows: Vec<&str> = shown.lines().collect();
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    assert_eq!(cells(rows[0]), ["DimmID", "System Timestamp", "Temperature", "Reported"], "{shown}");
    let row = cells(rows[2]);
    assert_eq!([&row[0], &row[2], &row[3]], ["0x0001", "90", "User Alarm Trip"], "{shown}");
    assert_eq!(rows[3..], ["No errors found on PMem module 0x0101", "Show error executed successfully"]);
    assert_eq!(run("show -error Thermal Level=High"), none);
    let cleared = run("set -dimm Clear=1 Temperature=1");
    assert_eq!(cleared.matches("Clear injected temperature on PMem module 0x0").count(), 2, "{cleared}");
    assert!(!run("show -sensor MediaTemperature -dimm 0x0001").contains("90C"));
    // A temperature below the alarm is not logged.
    run("set -dimm 0x0001 Temperature=40");
    assert_eq!(run("show -a -error Thermal Level=Low -dimm 0x0001").matches("Sequence Number=").count(), 1);

    run("set -dimm 0x0101 PercentageRemaining=7");
    assert!(run("show -sensor PercentageRemaining -dimm 0x0101").contains("7%"));
    assert!(run("show -error Media Level=Low").contains("| 0x05 - User Percentage Remaining Alarm Trip"));
    run("set -dimm 0x0101 FatalMediaError=1");
    assert!(run("show -sensor Health -dimm 0x0101").contains("Fatal"));
    assert!(run("show -error Media -dimm 0x0101").contains("| 0x06 - Smart Health Status Change"));
    run("set -dimm 0x0101 FatalMediaError=1 Clear=1");
    assert!(!run("show -sensor Health -dimm 0x0101").contains("Fatal"));
    let of = |words: &str| {
        let shown = run(&format!("show -a -error Media -dimm 0x0101{words}"));
        let numbers = shown.lines().filter_map(|line| line.trim().strip_prefix("Sequence Number="));
        numbers.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        (of(""), of(" SequenceNumber=2"), of(" Count=1")),
        (vec!["1".into(), "2".into()], vec!["2".into()], vec!["1".into()])
    );
    assert_eq!(of(" Count=0"), Vec::<String>::new());
    let before = run("show -sensor LatchedDirtyShutdownCount -dimm 0x0101");
    run("set -dimm 0x0101 DirtyShutdown=1");
    machine.start();
    assert_ne!(run("show -sensor LatchedDirtyShutdownCount -dimm 0x0101"), before);
}

/// Poison is logged by the patrol, and the kernel learns of it by a scrub.
#[test]
fn poison_is_logged_and_found() {
    let machine = Emulated::included("lab-pair").interleaved();
    let run = |words: &str| ipmctl(&machine, words).success();
    let done = "Poison address 0x20000200 on PMem module 0x0001: Success\n";
    assert_eq!(run("set -dimm 0x0001 Poison=0x20000200"), done);
    let all = run("show -a -error Media -dimm 0x0001");
    for line in [
        "---DimmID=0x0001---\n   ---Error=Media\n      System Timestamp=",
        "      Error Type=0x00 - Uncorrectable\n      Transaction Type=0x09 - Patrol Scrub\n",
        "      Error Flags=0x02 - DPA Valid\n      DPA=0x0000000020000200\n      PDA=N/A\n      Range=256B\n",
        "      Sequence Number=1\n",
    ] {
        assert!(all.contains(line), "{line}: {all}");
    }
    let is_known = || machine.ndctl("list -R -M").success().contains("badblock");
    assert!(!is_known());
    machine.ndctl("start-scrub").success();
    assert!(is_known());
    let done = run("set -dimm 0x0001 Clear=1 Poison=0x20000200");
    assert_eq!(done, "Clear injected poison of address 0x20000200 on PMem module 0x0001: Success\n");
    assert!(!is_known());
    // Poison of memory in use is found when it is read, or by a scrub.
    run("set -dimm 0x0101 Poison=0x20000200 PoisonType=AppDirect");
    assert!(run("show -error Media -dimm 0x0101").contains("No errors found"));
    machine.ndctl("start-scrub").success();
    let found = run("show -a -o nvmxml -error Media -dimm 0x0101");
    for element in
        ["<TransactionType>0x0C - Address Range Scrub<", "<SystemTimestamp>01/", "<Range>256B</Range>"]
    {
        assert!(found.contains(element), "{element}: {found}");
    }
    assert!(run("show -o nvmxml -error Thermal").contains("No errors found on PMem module 0x0001"));
}

/// An error that ndctl injects, or finds, is in the log, too, and only once.
#[test]
fn errors_of_ndctl_are_logged_once() {
    let machine = Emulated::included("lab-pair").interleaved();
    machine.ndctl("create-namespace -m raw").success();
    let logged = || {
        let shown = ipmctl(&machine, "show -a -error Media Count=255").success();
        (shown.matches("Patrol Scrub").count(), shown.matches("Address Range Scrub").count())
    };
    machine.ndctl("inject-error namespace0.0 -B 0 -n 1").success();
    assert_eq!(logged(), (1, 0));
    machine.ndctl("inject-error namespace0.0 -B 16 -n 1 --no-notify").success();
    assert_eq!(logged(), (1, 0));
    machine.start();
    assert_eq!(logged(), (1, 1), "the start finds one more");
    machine.start();
    machine.ndctl("start-scrub").success();
    assert_eq!(logged(), (1, 1), "known errors are not logged again");
}

#[test]
fn invalid_injections_are_refused() {
    let machine = Emulated::included("lab-pair").interleaved();
    let state = || fs::read_to_string(machine.state.join("state.toml")).unwrap();
    let before = state();
    let syntax: [(&str, &str); 11] = [
        ("", "Syntax Error: Incomplete syntax."),
        ("Clear=1", "Syntax Error: Clear property should be given in combination"),
        ("PoisonType=AppDirect Temperature=9", "Syntax Error: Poison type property should"),
        ("Temperature=9 DirtyShutdown=1", "Set properties of one or more PMem modules"),
        ("Temperature=hot", "'hot' is not a valid setting for the property. 'Temperature'"),
        ("PercentageRemaining=101", "'101' is not a valid setting"),
        ("FatalMediaError=2", "'2' is not a valid setting for the property. 'FatalMediaError'"),
        ("DirtyShutdown=1 Clear=0", "'0' is not a valid setting for the property. 'Clear'"),
        ("Poison=0 PoisonType=Any", "Syntax Error: Incorrect value for property PoisonType."),
        ("LockState=Unlocked Passphrase=x", "Syntax Error: Invalid or unexpected token LockState=Unlocked."),
        ("PackageSparing=1", ""),
    ];
    for (properties, output) in syntax {
        refused(&machine, format!("set -dimm {properties}").trim_end(), 201, output, "");
    }
    for (properties, output, why) in [
        (
            "Temperature=4000",
            "Set temperature on PMem module 0x0001: Error 5 - Invalid parameter",
            "4000 degrees",
        ),
        ("Poison=0x20000201", "Poison address on PMem module 0x0001: Error 5", "no multiple of 256"),
        ("Poison=0xffffffffffffff00", "Error 5 - Invalid parameter", "below the capacity"),
        ("Poison=0x20000200 PoisonType=MemoryMode", "Error 5", "is no volatile memory"),
        ("Poison=0 PoisonType=AppDirect", "Error 5", "is no mapped persistent memory"),
    ] {
        refused(&machine, &format!("set -dimm {properties}"), 1, output, why);
    }
    refused(&machine, "set -dimm 0x9999 Temperature=9", 1, "PMem module not found.", "0x9999");
    // They are no properties of a goal.
    let help = "    Provision capacity on one or more PMem modules into regions.\n";
    refused(&machine, "create -f -goal Temperature=50", 201, help, "");
    refused(&machine, "create -f -goal AlarmThreshold=50", 201, help, "");
    assert_eq!(state(), before);
}

/// ipmctl for Linux erases no modules, unlike that for UEFI. The refusal did not tell which command does.
#[test]
fn erasures_are_refused_with_the_command_that_erases() {
    let machine = Emulated::included("lab-pair");
    let erases = "`lode ndctl sanitize-dimm`";
    let help = "    Delete the region configuration goal from one or more PMem modules.\n";
    refused(&machine, "delete -dimm", 201, help, erases);
    let word = "Syntax Error: Invalid or unexpected token Passphrase=123.\n";
    refused(&machine, "delete -f -dimm 0x0001 Passphrase=123", 201, word, erases);
    for other in ["delete -goal -dimm x=y", "delete -foo"] {
        let result = ipmctl(&machine, other);
        assert!(!result.err.contains(erases), "{result:?}");
    }
}

/// A stored configuration, loaded on an equal machine, makes the same regions.
#[test]
fn configuration_is_dumped_and_loaded() {
    let machine = Emulated::included("e4-pmserver");
    let file = machine.file("configuration");
    let dump = format!("dump -destination {} -system -config", text(&file));
    refused(&machine, &dump, 1, "Error (131) - There are no configured DIMMs to dump.", "create -goal");
    assert!(!file.exists());
    ipmctl(&machine, "create -f -goal MemoryMode=25").success();
    machine.start();
    let said = ipmctl(&machine, &dump).success();
    assert_eq!(said, format!("Successfully dumped system configuration to file: {}\n", text(&file)));
    let stored = fs::read_to_string(&file).unwrap();
    assert!(stored.starts_with("#SocketID,DimmHandle,Capacity,MemorySize,AppDirect1Size,"), "{stored}");
    assert!(stored.contains("\n0,17,252,63,189,1065024,1,0,0,0\n"), "six ways by 4 KiB: {stored}");
    let other = Emulated::included("e4-pmserver");
    let load = format!("load -f -source {} -goal", text(&file));
    let loaded = ipmctl(&other, &load).success();
    assert!(loaded.starts_with("Loaded following pool configuration goal\n"), "{loaded}");
    refused(
        &other,
        &load,
        1,
        "Error (115) - DIMMs on one or more sockets already have a configured goal.",
        "goal",
    );
    other.start();
    for shown in ["show -region", "show -memoryresources", "show -dimm -pcd Config"] {
        assert_eq!(ipmctl(&other, shown).success(), ipmctl(&machine, shown).success(), "{shown}");
    }
    machine.start();
    for (edited, fault) in [
        (stored.replace("0,17,", "0,seventeen,"), "line 2 is not 10 decimal numbers"),
        (stored.replace("0,17,", "0,268435456,"), "line 2 is about the handle 268435456"),
        (format!("{stored}{}", stored.lines().nth(1).unwrap()), "as another one is"),
        (stored.lines().take(3).collect::<Vec<_>>().join("\n"), "it has no line for"),
        (stored.replace(",63,189,", ",63,190,"), "and it has 252 GiB for them"),
        (stored.replacen(",63,189,", ",63,100,", 1), "the set 1 is not one of modules"),
        (
            stored.replacen(",63,189,1065024,1,0,0,0", ",63,100,1065024,1,89,1065024,1", 1),
            "the set 1 is not one",
        ),
        (String::from_utf8_lossy(&vec![b'1'; 2 << 20]).into_owned(), "at most 1048576"),
    ] {
        fs::write(&file, edited).unwrap();
        refused(&machine, &load, 1, "Load Goal failed", fault);
    }
    refused(&machine, "load -source /nowhere -goal", 1, "", "check the path");
}

#[test]
fn diagnostics_find_what_is_wrong() {
    let machine = Emulated::included("lab-pair").interleaved();
    let sound = ipmctl(&machine, "start -diagnostic").success();
    assert!(
        sound
            .starts_with("\n--Test = Quick\n   State = Ok\n   Message = The quick health check succeeded.\n"),
        "{sound}"
    );
    assert_eq!(sound.matches("State = Ok").count(), 4 + 3 + 5 + 2 + 4, "{sound}");
    machine.ndctl("inject-smart -m 90 -s 3 nmem0").success();
    ipmctl(&machine, "delete -f -pcd Config -dimm 0x0101").success();
    let quick = ipmctl(&machine, "start -diagnostic quick,config").success();
    for part in [
        "State = Warning\n   Message = The quick health check detected that PMem module 0x0001 is reporting a media temperature of 90 C \
         which is above the alarm threshold 82 C.\n",
        "      EventCode.2 = 506\n",
        "PMem module 0x0101 is not configured.\n      EventCode.1 = 606\n",
        "--Test = Config\n   State = Ok\n",
    ] {
        assert!(quick.contains(part), "no {part:?} in {quick}");
    }
    assert!(!quick.contains("--Test = Security"), "{quick}");
    let other = ipmctl(&machine, "start -diagnostic Quick -dimm 0x0101").success();
    assert!(other.contains("succeeded"), "{other}");
    let xml = ipmctl(&machine, "start -o nvmxml -diagnostic FW").success();
    assert!(xml.contains("<Diagnostic>\n") && xml.contains("<SubTest>FW Consistency</SubTest>"), "{xml}");
    refused(&machine, "start -diagnostic Slow", 201, "valid values are: Quick|Config|Security|FW", "Slow");
    refused(&machine, "start -session -mode record", 2, "", "sessions record the calls");
}

#[test]
fn sockets_preferences_and_versions_are_shown() {
    let machine = Emulated::included("e4-pmserver");
    let sockets = ipmctl(&machine, "show -a -socket").success();
    assert!(
        sockets.starts_with("---SocketID=0x0000---\n   MappedMemoryLimit=N/A\n   TotalMappedMemory="),
        "{sockets}"
    );
    let one = ipmctl(&machine, "show -socket 1").success();
    assert!(one.contains("0x0001") && !one.contains("0x0000"), "{one}");
    refused(&machine, "show -socket 7", 1, "", "socket");
    let preferences = ipmctl(&machine, "show -preferences").success();
    assert!(preferences.contains("CLI_DEFAULT_SIZE=GiB\nAPPDIRECT_SETTINGS=RECOMMENDED\n"), "{preferences}");
    let version = "Intel(R) Optane(TM) DC Persistent Memory Command Line Interface Version 01.00.00.3474\n";
    assert_eq!(ipmctl(&machine, "version").success(), version);
    let newer =
        Emulated::of_text(&Machine::included("lab-pair").unwrap().replace("ipmctl = 3", "ipmctl = 2"));
    assert!(ipmctl(&newer, "version -o nvmxml").success().contains("<Version>02.00.00.3885</Version>"));
    let real = lode(["ipmctl", "--sysfs", "/sys", "set", "-sensor", "MediaTemperature", "AlarmEnabled=1"]);
    assert!(real.out.ends_with("ipmctl set -sensor MediaTemperature AlarmEnabled=1\n"), "{real:?}");
}

#[test]
fn preferences_are_set_and_used() {
    let machine = Emulated::included("lab-pair").interleaved();
    let said = ipmctl(&machine, "set -preferences cli_default_dimm_id=uid CLI_DEFAULT_SIZE=AUTO").success();
    assert_eq!(said, "Set CLI_DEFAULT_DIMM_ID=uid: Success\nSet CLI_DEFAULT_SIZE=AUTO: Success\n");
    let shown =
        "CLI_DEFAULT_DIMM_ID=UID\nCLI_DEFAULT_SIZE=AUTO\nAPPDIRECT_SETTINGS=RECOMMENDED\nDBG_LOG_LEVEL=0\n";
    assert_eq!(ipmctl(&machine, "show -preferences").success(), shown);
    let listings =
        ["show -dimm", "show -topology", "show -a -region", "show -sensor Health", "show -firmware"];
    let by_id = ["show -dimm -pcd Config", "show -error Media", "show -a -dimm"];
    for listing in listings.into_iter().chain(by_id) {
        let listed = ipmctl(&machine, listing).success();
        assert!(listed.contains("8089-a2-"), "{listing}: {listed}");
        assert!(!listed.contains("\n 0x0001") && !listed.contains("DimmID=0x"), "{listing}: {listed}");
    }
    assert!(ipmctl(&machine, "show -system -capabilities").success().contains("Alignment=1.000 GiB"));
    assert!(
        ipmctl(&machine, "show -u MiB -system -capabilities").success().contains("Alignment=1024.000 MiB")
    );
    // A module is still named by its handle.
    assert!(ipmctl(&machine, "show -dimm 0x0001").success().contains("8089-a2-"));
    machine.start();
    assert_eq!(ipmctl(&machine, "show -preferences").success(), shown, "a start leaves them");
    ipmctl(&machine, "set -preferences CLI_DEFAULT_SIZE=B").success();
    let goal = ipmctl(&machine, "create -f -goal").success();
    assert!(goal.contains(" B ") && goal.contains("8089-a2-") && !goal.contains("GiB"), "{goal}");
    let output = lode(["--json", "ipmctl"].into_iter().chain(machine.location()).chain([
        "set",
        "-preferences",
        "DBG_LOG_LEVEL=4",
    ]));
    assert_eq!(output.json()["output"][0]["DBG_LOG_LEVEL"], 4, "{output:?}");
    let real = lode(["ipmctl", "--sysfs", "/sys", "set", "-preferences", "DBG_LOG_LEVEL=4"]);
    assert!(real.out.ends_with("ipmctl set -preferences DBG_LOG_LEVEL=4\n"), "{real:?}");
}

#[test]
fn invalid_preferences_are_refused() {
    let machine = Emulated::included("lab-pair");
    for (words, output, why) in [
        ("", "Syntax Error: Incomplete syntax.", "CLI_DEFAULT_SIZE=MiB"),
        (
            "CLI_DEFAULT_DIMM_ID=id",
            "Set CLI_DEFAULT_DIMM_ID=id. Error: 2. Incorrect default DimmID type",
            "\"id\"",
        ),
        ("CLI_DEFAULT_SIZE=KiB", "Set CLI_DEFAULT_SIZE=KiB. Error: 2. Incorrect default size type", "KiB"),
        ("APPDIRECT_SETTINGS=4KB", "Error: 2. Incorrect AppDirect interleave setting type", "4KB"),
        ("APPDIRECT_SETTINGS=256B_4KB", "Error: 2. Reason for failure unknown", "256B_4KB"),
        ("DBG_LOG_LEVEL=5", "Error: 2. Setting is invalid or out of range", "\"5\""),
        ("APPDIRECT_GRANULARITY=1", "unexpected token APPDIRECT_GRANULARITY=1.", "not expected there"),
        ("MemoryMode=1", "Set user preferences.", "no command has"),
        ("5 DBG_LOG_LEVEL=1", "Set user preferences.", "no command has"),
    ] {
        refused(&machine, format!("set -preferences {words}").trim_end(), 201, output, why);
    }
    let ended = "set -preferences CLI_DEFAULT_SIZE=KiB APPDIRECT_SETTINGS=4KB_4KB DBG_LOG_LEVEL=2";
    refused(&machine, ended, 201, "Error: Internal function error.", "KiB");
    let partly = "set -preferences CLI_DEFAULT_SIZE=KiB DBG_LOG_LEVEL=1";
    refused(&machine, partly, 201, "Set DBG_LOG_LEVEL=1: Success", "KiB");
    let shown = ipmctl(&machine, "show -preferences").success();
    assert!(shown.ends_with("=GiB\nAPPDIRECT_SETTINGS=RECOMMENDED\nDBG_LOG_LEVEL=1\n"), "{shown}");
    ipmctl(&machine, "set -preferences APPDIRECT_SETTINGS=4KB_4KB DBG_LOG_LEVEL=0").success();
    let first = Emulated::included("e4-pmserver");
    ipmctl(&first, "set -preferences APPDIRECT_GRANULARITY=1").success();
    assert!(
        ipmctl(&first, "show -preferences")
            .success()
            .contains("\nAPPDIRECT_GRANULARITY=1\nDBG_LOG_LEVEL=0\n")
    );
    let state = machine.state.join("state.toml");
    let valid = fs::read_to_string(&state).unwrap();
    for (from, to, told) in [
        ("\"4KB_4KB\"", "\"2KB_4KB\"", "unknown variant `2KB_4KB`"),
        ("log_level = 0", "log_level = 5", "a log level is 0 to 4"),
        ("size = \"GiB\"", "size = \"KiB\"", "unknown variant `KiB`"),
        ("log_level", "log_depth", "unknown field `log_depth`"),
    ] {
        let edited = valid.replacen(from, to, 1);
        assert_ne!(edited, valid, "{from}");
        fs::write(&state, edited).unwrap();
        ipmctl(&machine, "show -preferences").failure(1, &["state.toml", told]);
    }
}
