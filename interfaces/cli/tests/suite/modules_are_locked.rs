//! Passphrases lock the modules of an emulated machine, and keys unlock them, by the commands of ndctl.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::emulated::Emulated;
use crate::program::{RunResult, lode, text};
use std::fs;
use std::ops::Deref;

const SETUP: &str = "setup-passphrase nmem0 -k user:nvdimm-master";

/// A machine whose keyring has its key-encryption-key, with a disabled region of two modules.
struct Keyed(Emulated);

impl Deref for Keyed {
    type Target = Emulated;

    fn deref(&self) -> &Emulated {
        &self.0
    }
}

impl Keyed {
    /// Returns `None` if the kernel has no keyring for this process.
    fn new(test: &str) -> Option<Keyed> {
        let machine = Keyed(Emulated::included("lab-pair").interleaved());
        fs::write(machine.file("nvdimm-master.blob"), "a key of any bytes").unwrap();
        let loaded = machine.load();
        if loaded.err.contains("the kernel's user keyring") {
            lode_testing::skip(test, loaded.err);
            return None;
        }
        assert_eq!(loaded.success(), "nvdimm master key loaded.\n0 nvdimm keys loaded\n");
        machine.ndctl("disable-region all").success();
        Some(machine)
    }

    /// Loads the keys of the folder beside the machine.
    fn load(&self) -> RunResult {
        self.ndctl(&format!("load-keys -p {}", text(self.folder.path())))
    }

    fn security(&self) -> (String, bool) {
        let listed = self.ndctl("list -Di -d nmem0").success();
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let module = listed.as_array().map_or(&listed, |all| &all[0]);
        (module["security"].as_str().unwrap().to_owned(), module["security_frozen"] == true)
    }
}

impl Drop for Keyed {
    fn drop(&mut self) {
        // A start removes the keys from the keyring.
        self.start();
    }
}

/// Returns true if the kernel has a keyring for the program.
pub(crate) fn has_keyring(test: &str) -> bool {
    Keyed::new(test).is_some()
}

#[test]
fn passphrase_locks_after_reboot() {
    let Some(machine) = Keyed::new("passphrase_locks_after_reboot") else { return };
    assert_eq!(machine.security(), ("disabled".into(), false));
    assert_eq!(machine.ndctl(SETUP).success(), "passphrase enabled for 1 nmem\n");
    assert_eq!(machine.security(), ("unlocked".into(), false));
    machine
        .ndctl(SETUP)
        .failure(1, &["key already present in user keyring: nvdimm:", "update the passphrase"]);
    machine.start();
    assert_eq!(machine.security(), ("locked".into(), false));
    assert_eq!(machine.ndctl("list -RN").success(), "");
    machine.ndctl("create-namespace").failure(1, &["creating a namespace"]);
    machine.ndctl("zero-labels nmem0").failure(1, &["is locked", "lode ndctl load-keys"]);
    machine.ndctl("enable-dimm nmem0").failure(1, &["enabling a module", "lode ndctl load-keys"]);
    machine.ndctl("load-keys").failure(1, &["no key user:nvdimm-master", "nvdimm-master.blob is missing"]);
    let kek = machine.file("nvdimm-master.blob");
    fs::copy(kek, machine.state.join("keys/nvdimm-master.blob")).unwrap();
    let loaded = machine.ndctl("load-keys").success();
    assert_eq!(loaded, "nvdimm master key loaded.\n1 nvdimm keys loaded\nunlocked nmem0\n");
    assert!(machine.ndctl("list -R").success().contains("region0"));
    let active =
        ["regions active on nmem0, op failed; disable region0 first with `lode ndctl disable-region`"];
    machine.ndctl("update-passphrase nmem0").failure(1, &active);
    machine.ndctl("sanitize-dimm nmem0").failure(1, &active);
    machine.ndctl("disable-region region0").success();
    assert_eq!(machine.ndctl("update-passphrase nmem0").success(), "passphrase updated for 1 nmem\n");
    assert_eq!(machine.ndctl("remove-passphrase nmem0").success(), "passphrase removed for 1 nmem\n");
    assert_eq!(machine.security(), ("disabled".into(), false));
    machine.ndctl("remove-passphrase nmem0").failure(1, &["nmem0: unable to load key", "is missing"]);
}

#[test]
fn frozen_and_exhausted_modules_wait_for_reboot() {
    let Some(machine) = Keyed::new("frozen_and_exhausted_modules_wait_for_reboot") else { return };
    machine.ndctl("freeze-security nmem0").failure(1, &["has no passphrase", "lode ndctl setup-passphrase"]);
    machine.ndctl("setup-passphrase all -k user:nvdimm-master").success();
    assert_eq!(machine.ndctl("freeze-security nmem0").success(), "security froze 1 nmem\n");
    assert_eq!(machine.security(), ("unlocked".into(), true));
    let frozen = machine.ndctl("remove-passphrase nmem0 nmem1");
    assert_eq!(frozen.out, "passphrase removed for 1 nmem\n");
    frozen.failure(1, &["removing a passphrase: nmem0: security is frozen", "lode platform reboot"]);
    machine.start();
    machine.load().success();
    for left in (0..5).rev() {
        machine
            .ndctl("sanitize-dimm nmem0 -z")
            .failure(1, &["passphrase is wrong", &format!("{left} more tries")]);
    }
    let refused = machine.ndctl("sanitize-dimm nmem0 --zero-key");
    refused.failure(1, &["was wrong too often", "start the machine first with `lode platform reboot`"]);
    assert_eq!(machine.security(), ("locked".into(), true));
}

#[test]
fn overwrite_refuses_all_until_waited_for() {
    let Some(machine) = Keyed::new("overwrite_refuses_all_until_waited_for") else { return };
    assert_eq!(machine.ndctl("sanitize-dimm nmem0 --overwrite").success(), "overwrite issued for 1 nmem\n");
    assert_eq!(machine.security(), ("overwrite".into(), false));
    for words in [
        SETUP,
        "update-passphrase nmem0",
        "remove-passphrase nmem0",
        "freeze-security nmem0",
        "sanitize-dimm nmem0 -c",
        "sanitize-dimm nmem0 -o",
    ] {
        machine.ndctl(words).failure(1, &["nmem0 overwrites its media", "lode ndctl wait-overwrite"]);
    }
    machine.ndctl("init-labels nmem0").failure(1, &["overwrites its media", "lode ndctl wait-overwrite"]);
    machine.ndctl("enable-region region0").failure(1, &["region0"]);
    assert_eq!(machine.ndctl("wait-overwrite -v all").success(), "nmem0: overwrite completed.\n");
    assert_eq!(machine.ndctl("wait-overwrite all").success(), "");
    machine.ndctl("enable-region region0").success();
}

#[test]
fn invalid_security_options_are_refused() {
    let Some(machine) = Keyed::new("invalid_security_options_are_refused") else { return };
    machine.ndctl("setup-passphrase nmem0").failure(2, &["--key-handle <KEY>"]);
    machine
        .ndctl("setup-passphrase nmem0 -k nvdimm-master")
        .failure(2, &["is no key handle", "user:nvdimm-master"]);
    machine.ndctl("setup-passphrase nmem0 -k trusted:nvdimm-master").failure(2, &["a key of a TPM"]);
    machine.ndctl("setup-passphrase nmem0 -k user:lode-missing").failure(1, &["no key encryption key found"]);
    machine.ndctl("setup-passphrase nmem9 -k user:nvdimm-master").failure(1, &["no module nmem9"]);
    machine.ndctl("setup-passphrase dimm -k user:nvdimm-master").failure(2, &["not the name of a nmem"]);
    machine.ndctl("sanitize-dimm nmem0 -o -m").failure(1, &["overwrite does not support master passphrase"]);
    machine.ndctl("load-keys -t 0x81000001").failure(1, &["--tpm-handle names a handle of a TPM"]);
    machine.ndctl("load-keys -p missing").failure(1, &["missing"]);
    let old = lode(["platform", "init", "e4-storage", "--state", text(&machine.file("old"))]);
    old.success();
    let old = machine.file("old");
    let refused = lode(["ndctl", "--state", text(&old), "freeze-security", "nmem0"]);
    refused.failure(1, &["nmem0: security operation not supported"]);
}

#[test]
fn security_json_fields_match_help() {
    let Some(machine) = Keyed::new("security_json_fields_match_help") else { return };
    let keys = text(machine.folder.path());
    let ran: [(&str, &[&str]); 9] = [
        ("load-keys", &["-p", keys]),
        ("setup-passphrase", &["nmem0", "-k", "user:nvdimm-master"]),
        ("setup-passphrase", &["nmem0", "-m", "-k", "user:nvdimm-master"]),
        ("update-passphrase", &["nmem0"]),
        ("sanitize-dimm", &["nmem0", "-m"]),
        ("sanitize-dimm", &["nmem0", "-o"]),
        ("wait-overwrite", &["nmem0"]),
        ("setup-passphrase", &["nmem0", "-k", "user:nvdimm-master"]),
        ("remove-passphrase", &["nmem0"]),
    ];
    for (verb, words) in ran {
        machine.check_fields("ndctl", verb, &words.join(" "));
    }
}
