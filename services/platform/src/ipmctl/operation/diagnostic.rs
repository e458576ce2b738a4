//! `ipmctl start -diagnostic`: what an emulated machine can have wrong.
//!
//! The tests, their parts, messages and numbers are those of the manual page ipmctl-start-diagnostic. Parts that look at what
//! is not emulated find nothing.

use crate::ipmctl::display::{DisplayOptions, print};
use crate::ipmctl::error::ShowError;
use crate::listing::{Format, Record, Records};
use crate::machine::{Handle, Health, Module, Security};
use crate::platform::Platform;
use crate::smart;
use std::collections::{BTreeMap, BTreeSet};

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagnosticTest {
    /// `Quick`: the health of modules.
    Quick,
    /// `Config`: their configuration.
    Config,
    /// `Security`: whether all have the same security.
    Security,
    /// `FW`: whether all have the same firmware.
    Firmware,
}

/// A finding: its part of the test, its number, and its message.
struct Finding {
    part: &'static str,
    code: u16,
    message: String,
}

/// The findings that are information alone.
const INFORMATION: [u16; 4] = [530, 606, 609, 804];

impl Finding {
    fn is_warning(&self) -> bool {
        !INFORMATION.contains(&self.code)
    }
}

impl DiagnosticTest {
    /// All tests.
    pub(super) const ALL: [DiagnosticTest; 4] =
        [DiagnosticTest::Quick, DiagnosticTest::Config, DiagnosticTest::Security, DiagnosticTest::Firmware];

    /// Returns its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            DiagnosticTest::Quick => "Quick",
            DiagnosticTest::Config => "Config",
            DiagnosticTest::Security => "Security",
            DiagnosticTest::Firmware => "FW",
        }
    }

    fn parts(self) -> &'static [&'static str] {
        match self {
            DiagnosticTest::Quick => &["Manageability", "Boot status", "Health"],
            DiagnosticTest::Config => {
                &["PMem module specs", "Duplicate PMem module", "System Capability", "Namespace LSA", "PCD"]
            }
            DiagnosticTest::Security => &["Encryption status", "Inconsistency"],
            DiagnosticTest::Firmware => &["FW Consistency", "Viral Policy", "Threshold check", "System Time"],
        }
    }

    fn success(self) -> &'static str {
        match self {
            DiagnosticTest::Quick => "The quick health check succeeded.",
            DiagnosticTest::Config => "The platform configuration check succeeded.",
            DiagnosticTest::Security => "The security check succeeded.",
            DiagnosticTest::Firmware => "The firmware consistency and settings check succeeded.",
        }
    }

    fn run(self, platform: &Platform, modules: &[&Module]) -> Vec<Finding> {
        match self {
            DiagnosticTest::Quick => modules.iter().flat_map(|module| health(platform, module)).collect(),
            DiagnosticTest::Config => {
                modules.iter().filter_map(|module| configuration(platform, module)).collect()
            }
            DiagnosticTest::Security => security(modules),
            DiagnosticTest::Firmware => firmware(modules),
        }
    }
}

/// Runs tests on these modules. Returns ipmctl's output.
///
/// # Errors
/// None: no values are selected.
pub fn diagnose(
    platform: &Platform,
    tests: &[DiagnosticTest],
    modules: &[Handle],
    format: Format,
) -> Result<String, ShowError> {
    let modules: Vec<&Module> =
        modules.iter().filter_map(|module| platform.machine.module(*module)).collect();
    let found: Vec<(DiagnosticTest, Vec<Finding>)> =
        tests.iter().map(|test| (*test, test.run(platform, &modules))).collect();
    if format == Format::Text {
        return Ok(found.iter().map(|(test, findings)| text(*test, findings)).collect());
    }
    let records = found.iter().map(|(test, findings)| record(*test, findings)).collect();
    let display = DisplayOptions { format, ..DisplayOptions::default() };
    let head = Some("Test");
    let records =
        Records { list_tag: "DiagnosticList", tag: "Diagnostic", part_tag: "SubTest", head, records };
    print(records, &[], &display)
}

/// Returns the state of a test, or of a part of one.
fn state<'f>(mut findings: impl Iterator<Item = &'f Finding>) -> &'static str {
    if findings.any(Finding::is_warning) { "Warning" } else { "Ok" }
}

/// Returns the message of a test.
fn message(test: DiagnosticTest, findings: &[Finding]) -> String {
    let warning = findings.iter().find(|finding| finding.is_warning());
    warning.map_or_else(|| test.success().to_owned(), |finding| finding.message.clone())
}

fn text(test: DiagnosticTest, findings: &[Finding]) -> String {
    let head = format!(
        "\n--Test = {}\n   State = {}\n   Message = {}\n",
        test.name(),
        state(findings.iter()),
        message(test, findings)
    );
    test.parts().iter().fold(head, |text, part| {
        let of_part: Vec<&Finding> = findings.iter().filter(|finding| finding.part == *part).collect();
        let head = format!("   --SubTest = {part}\n      State = {}\n", state(of_part.iter().copied()));
        (1..).zip(of_part).fold(text + &head, |text, (number, Finding { code, message, .. })| {
            text + &format!("      Message.{number} = {message}\n      EventCode.{number} = {code}\n")
        })
    })
}

fn record(test: DiagnosticTest, findings: &[Finding]) -> Record {
    let part = |part: &&'static str| {
        let of_part: Vec<&Finding> = findings.iter().filter(|finding| finding.part == *part).collect();
        let record = Record::new().with("SubTest", *part).with("State", state(of_part.iter().copied()));
        match of_part.as_slice() {
            [] => record,
            some => {
                let messages: Vec<&str> = some.iter().map(|finding| finding.message.as_str()).collect();
                record.with("Message", messages.join(" ")).with("EventCode", some[0].code)
            }
        }
    };
    Record::new()
        .with("Test", test.name())
        .with("State", state(findings.iter()))
        .with("Message", message(test, findings))
        .with_parts(test.parts().iter().map(part).collect())
}

fn health(platform: &Platform, module: &Module) -> Vec<Finding> {
    let report = smart::report(platform, module);
    let found = format!("The quick health check detected that PMem module {}", module.handle);
    let mut findings = Vec::new();
    let mut add = |is_so: bool, code, what: String| {
        if is_so {
            findings.push(Finding { part: "Health", code, message: format!("{found} {what}") });
        }
    };
    let health = report.health;
    add(health != Health::Healthy, 504, format!("is reporting a bad health state {}.", health.as_str()));
    if health == Health::NonFunctional {
        return findings;
    }
    let above = |sensor, value, alarm| {
        format!(
            "is reporting a {sensor} temperature of {value} C which is above the alarm threshold {alarm} C."
        )
    };
    let media = &report.media_alarm;
    add(media.tripped, 505, above("media", report.media_celsius, media.threshold));
    let (left, alarm) = (report.spares_percent, &report.spares_alarm);
    let text = format!(
        "is reporting percentage remaining at {left}% which is less than the alarm threshold {}%.",
        alarm.threshold
    );
    add(alarm.tripped, 506, text);
    let controller = &report.controller_alarm;
    add(controller.tripped, 511, above("controller", report.controller_celsius, controller.threshold));
    if report.last_shutdown_dirty {
        let message = format!(
            "The quick health check detected that the firmware on PMem module {} experienced a dirty shutdown before its \
             latest restart.",
            module.handle
        );
        findings.push(Finding { part: "Health", code: 530, message });
    }
    findings
}

fn configuration(platform: &Platform, module: &Module) -> Option<Finding> {
    let found = format!("The platform configuration check detected that PMem module {}", module.handle);
    let (code, what) = if platform.state.goal(module.handle).is_some() {
        (
            609,
            "has a goal configuration that has not yet been applied. A system reboot is required for the new \
             configuration to take effect.",
        )
    } else if !platform.state.is_configured(module.handle) {
        (606, "is not configured.")
    } else {
        return None;
    };
    Some(Finding { part: "PCD", code, message: format!("{found} {what}") })
}

fn security(modules: &[&Module]) -> Vec<Finding> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for module in modules {
        *counts.entry(module.security.as_str()).or_default() += 1;
    }
    if !modules.is_empty() && modules.iter().all(|module| module.security == Security::Unsupported) {
        let message =
            "The security check detected that security is not supported on all PMem modules.".to_owned();
        return vec![Finding { part: "Encryption status", code: 804, message }];
    }
    if counts.len() < 2 {
        return Vec::new();
    }
    let counts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let message =
        format!("The security check detected that security settings are inconsistent {}.", counts.join(", "));
    vec![Finding { part: "Inconsistency", code: 802, message }]
}

fn firmware(modules: &[&Module]) -> Vec<Finding> {
    let versions: BTreeSet<&str> = modules.iter().filter_map(|module| module.firmware.as_deref()).collect();
    let Some(newest) = versions.last() else { return Vec::new() };
    let is_older = |module: &&&Module| module.firmware.as_deref().is_some_and(|version| version != *newest);
    let older: Vec<String> =
        modules.iter().filter(is_older).map(|module| module.handle.to_string()).collect();
    if older.is_empty() {
        return Vec::new();
    }
    let message = format!(
        "The firmware consistency and settings check detected that firmware version on PMem modules {} with subsystem \
         device ID N/A is nonoptimal, preferred version is {newest}.",
        older.join(", ")
    );
    vec![Finding { part: "FW Consistency", code: 902, message }]
}
