//! Security commands of a module follow the state table of the kernel and of Intel's DSM interface, and survive in the
//! state directory.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::goal::{self, GoalRequest};
use lode_platform::ipmctl::{self, Attributes, DisplayOptions, Subject};
use lode_platform::machine::{INCLUDED, Machine, ModuleError};
use lode_platform::ndctl::{self, Included, ListRequest};
use lode_platform::security::{self, Passphrase, Role, SecurityError, TRIES};
use lode_platform::{
    CreateNamespace, Directory, Mode, Platform, PlatformError, Purpose, State, Targets, boot, namespace,
    region,
};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use uuid::Uuid;

/// A command, with passphrases by their number: 0 is that of zeros.
#[derive(Clone, Copy, Debug)]
enum Command {
    Set(Role, u8, u8),
    Disable(u8),
    Freeze,
    Unlock(u8),
    Erase(Role, u8),
    Overwrite(u8),
    Finish,
    Start,
    Region(bool),
}

/// The answers of a module and its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Nothing,
    Busy,
    Frozen,
    Limit,
    NoPassphrase,
    Wrong { left: u32 },
    NotZero,
    Overwriting,
    RegionRefused,
}

/// The state words of the DSM interface: ENABLED, LOCKED, FROZEN, and the overwrite, beside the passphrases.
#[derive(Clone, Debug, Default)]
struct Table {
    enabled: bool,
    locked: bool,
    frozen: bool,
    overwrite: bool,
    passphrase: u8,
    master: u8,
    wrong: u32,
    wrong_master: u32,
    region_disabled: bool,
}

impl Table {
    fn limit(&self) -> bool {
        self.enabled && self.wrong == 5
    }

    fn region_active(&self) -> bool {
        !self.region_disabled && !self.locked && !self.overwrite
    }

    /// Compares as the module does: first its limit, then the passphrase.
    fn compare(&mut self, role: Role, given: u8) -> Option<Answer> {
        let (right, wrong) = match role {
            Role::User if !self.enabled => return (given != 0).then_some(Answer::NotZero),
            Role::User => (self.passphrase, &mut self.wrong),
            Role::Master => (self.master, &mut self.wrong_master),
        };
        if *wrong == 5 {
            return Some(Answer::Limit);
        }
        if given == right {
            *wrong = 0;
            return None;
        }
        *wrong += 1;
        Some(Answer::Wrong { left: 5 - *wrong })
    }

    fn run(&mut self, command: Command) -> Answer {
        use Command as C;
        if self.overwrite {
            match command {
                C::Finish => {
                    self.overwrite = false;
                    return Answer::Done;
                }
                C::Start | C::Region(_) => {}
                _ => return Answer::Overwriting,
            }
        }
        if matches!(command, C::Erase(..) | C::Overwrite(_)) && self.region_active() {
            return Answer::Busy;
        }
        let changes = matches!(command, C::Set(..) | C::Disable(_) | C::Erase(..) | C::Overwrite(_));
        if changes || matches!(command, C::Unlock(_)) && self.locked {
            match (self.frozen, self.limit()) {
                (true, _) => return Answer::Frozen,
                (false, true) => return Answer::Limit,
                (false, false) => {}
            }
        }
        match command {
            C::Finish => Answer::Nothing,
            C::Unlock(_) if !self.locked => Answer::Nothing,
            C::Disable(_) | C::Freeze if !self.enabled => Answer::NoPassphrase,
            C::Freeze => {
                self.frozen = true;
                Answer::Done
            }
            C::Start => {
                self.locked = self.enabled;
                (self.frozen, self.overwrite, self.region_disabled) = (false, false, false);
                (self.wrong, self.wrong_master) = (0, 0);
                Answer::Done
            }
            C::Region(enable) => {
                let (before, disabled) = (self.region_active(), self.region_disabled);
                self.region_disabled = !enable;
                match (enable, self.region_active()) {
                    (true, false) => {
                        self.region_disabled = disabled;
                        Answer::RegionRefused
                    }
                    _ if before == enable => Answer::Nothing,
                    _ => Answer::Done,
                }
            }
            C::Set(role, old, new) => self.compare(role, old).unwrap_or_else(|| {
                match role {
                    Role::User => (self.enabled, self.passphrase) = (true, new),
                    Role::Master => self.master = new,
                }
                Answer::Done
            }),
            C::Unlock(given) => self.compare(Role::User, given).unwrap_or_else(|| {
                self.locked = false;
                Answer::Done
            }),
            C::Disable(given) => self.compare(Role::User, given).unwrap_or_else(|| {
                (self.enabled, self.locked) = (false, false);
                Answer::Done
            }),
            C::Erase(role, given) => self.compare(role, given).unwrap_or_else(|| {
                (self.enabled, self.locked, self.wrong) = (false, false, 0);
                Answer::Done
            }),
            C::Overwrite(given) => {
                let refused = if self.enabled { self.compare(Role::User, given) } else { None };
                refused.unwrap_or_else(|| {
                    self.overwrite = true;
                    Answer::Done
                })
            }
        }
    }

    /// Returns what `ndctl list -D` shows.
    fn shown(&self) -> (&'static str, bool) {
        let word = match self {
            Table { overwrite: true, .. } => "overwrite",
            Table { locked: true, .. } => "locked",
            Table { enabled: true, .. } => "unlocked",
            _ => "disabled",
        };
        (word, self.enabled && !self.overwrite && (self.frozen || self.limit()))
    }
}

fn passphrase(number: u8) -> Passphrase {
    if number == 0 { Passphrase::ZERO } else { Passphrase::new(&[number; 32]).unwrap() }
}

fn run(platform: &mut Platform, command: Command) -> Answer {
    let done = |done: bool| if done { Answer::Done } else { Answer::Nothing };
    let answer = match command {
        Command::Set(role, old, new) => {
            security::set_passphrase(platform, 0, role, &passphrase(old), &passphrase(new))
                .map(|()| Answer::Done)
        }
        Command::Disable(given) => {
            security::disable_passphrase(platform, 0, &passphrase(given)).map(|()| Answer::Done)
        }
        Command::Freeze => security::freeze(platform, 0).map(|()| Answer::Done),
        Command::Unlock(given) => security::unlock(platform, 0, &passphrase(given)).map(done),
        Command::Erase(role, given) => {
            security::erase(platform, 0, role, &passphrase(given)).map(|()| Answer::Done)
        }
        Command::Overwrite(given) => {
            security::overwrite(platform, 0, &passphrase(given)).map(|()| Answer::Done)
        }
        Command::Finish => security::finish_overwrite(platform, 0).map(done),
        Command::Start => {
            boot::reboot(platform);
            Ok(Answer::Done)
        }
        // As a command does, keep the platform of before if the change is refused.
        Command::Region(enable) => {
            let mut changed = platform.clone();
            Ok(match region::enable(&mut changed, 0, enable) {
                Ok(switched) => {
                    *platform = changed;
                    done(switched)
                }
                Err(_) => Answer::RegionRefused,
            })
        }
    };
    match answer {
        Ok(answer) => answer,
        Err(SecurityError::RegionActive { index: 0, region: 0 }) => Answer::Busy,
        Err(SecurityError::Frozen { index: 0 }) => Answer::Frozen,
        Err(SecurityError::Limit { index: 0, .. }) => Answer::Limit,
        Err(SecurityError::Disabled { index: 0 }) => Answer::NoPassphrase,
        Err(SecurityError::WrongPassphrase { index: 0, left, .. }) => Answer::Wrong { left },
        Err(SecurityError::NotZero { index: 0 }) => Answer::NotZero,
        Err(SecurityError::Overwriting { index: 0 }) => Answer::Overwriting,
        Err(other) => panic!("{command:?}: {other}"),
    }
}

/// Returns the security of nmem0 as ndctl lists it.
fn shown(platform: &Platform) -> (String, bool) {
    let module = ndctl::inventory(platform).buses[0].modules[0].clone();
    (module.security.unwrap(), module.security_frozen)
}

fn list(platform: &Platform) -> String {
    let included = Included { regions: true, namespaces: true, ..Included::default() };
    ndctl::inventory(platform).list(&ListRequest { included, ..ListRequest::default() })
}

/// A machine with one region of two modules, and a namespace on it.
fn machine() -> Platform {
    let mut platform = Platform::new(Machine::parse(Machine::included("lab-pair").unwrap()).unwrap());
    let goals = goal::plan(&platform, &GoalRequest::default()).unwrap();
    goal::create(&mut platform, goals);
    boot::reboot(&mut platform);
    make_namespace(&mut platform);
    platform
}

fn make_namespace(platform: &mut Platform) {
    let wanted = CreateNamespace { mode: Mode::Fsdax, ..CreateNamespace::default() };
    let mut next = 0;
    let mut uuids = || {
        next += 1;
        Uuid::from_u128(next)
    };
    namespace::create(platform, &wanted, &mut uuids).unwrap();
}

fn command() -> impl Strategy<Value = Command> {
    let number = 0_u8..3;
    let role = prop_oneof![3 => Just(Role::User), 1 => Just(Role::Master)];
    prop_oneof![
        4 => (role.clone(), number.clone(), 1_u8..3).prop_map(|(role, old, new)| Command::Set(role, old, new)),
        2 => number.clone().prop_map(Command::Disable),
        1 => Just(Command::Freeze),
        4 => number.clone().prop_map(Command::Unlock),
        2 => (role, number.clone()).prop_map(|(role, given)| Command::Erase(role, given)),
        1 => number.prop_map(Command::Overwrite),
        1 => Just(Command::Finish),
        3 => Just(Command::Start),
        3 => any::<bool>().prop_map(Command::Region),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Random commands get the answers of the state table. The listings agree with it after each.
    #[test]
    fn random_commands_follow_the_state_table(commands in proptest::collection::vec(command(), 1..60)) {
        let (mut platform, mut table) = (machine(), Table::default());
        for command in commands {
            let expected = table.run(command);
            prop_assert_eq!(run(&mut platform, command), expected, "{:?}, {:?}", command, table);
            let (word, frozen) = table.shown();
            prop_assert_eq!(shown(&platform), (word.to_owned(), frozen), "{:?}", command);
            prop_assert_eq!(platform.regions()[0].enabled, table.region_active(), "{:?}", command);
            prop_assert_eq!(list(&platform).contains("region0"), table.region_active());
            let stored: State = toml::from_str(&toml::to_string(&platform.state).unwrap()).unwrap();
            prop_assert_eq!(&stored, &platform.state);
        }
    }
}

#[test]
fn start_locks_until_unlocked() {
    let mut platform = machine();
    let listed = list(&platform);
    assert!(listed.contains("region0") && listed.contains("namespace0.0"), "{listed}");
    assert_eq!(run(&mut platform, Command::Set(Role::User, 0, 1)), Answer::Done);
    assert_eq!(list(&platform), listed, "a new passphrase locks nothing yet");
    assert_eq!(run(&mut platform, Command::Start), Answer::Done);
    assert_eq!(shown(&platform), ("locked".into(), false));
    assert_eq!(list(&platform), "");
    let refused = namespace::init_labels(&mut platform, 0, None, true).unwrap_err().to_string();
    assert!(refused.contains("is locked"), "{refused}");
    assert_eq!(run(&mut platform, Command::Region(true)), Answer::RegionRefused);
    assert_eq!(run(&mut platform, Command::Unlock(2)), Answer::Wrong { left: 4 });
    assert_eq!(list(&platform), "");
    assert_eq!(run(&mut platform, Command::Unlock(1)), Answer::Done);
    assert_eq!(list(&platform), listed, "namespaces come back");
}

#[test]
fn five_wrong_passphrases_exhaust_tries_until_start() {
    let mut platform = machine();
    run(&mut platform, Command::Set(Role::User, 0, 1));
    run(&mut platform, Command::Start);
    for left in (0..TRIES).rev() {
        assert_eq!(run(&mut platform, Command::Unlock(2)), Answer::Wrong { left });
    }
    assert_eq!(run(&mut platform, Command::Unlock(1)), Answer::Limit, "the right one comes too late");
    assert_eq!(shown(&platform), ("locked".into(), true));
    run(&mut platform, Command::Start);
    assert_eq!(run(&mut platform, Command::Unlock(1)), Answer::Done);
    for _ in 0..3 {
        for _ in 1..TRIES {
            assert!(matches!(run(&mut platform, Command::Disable(2)), Answer::Wrong { .. }));
        }
        assert_eq!(run(&mut platform, Command::Set(Role::User, 1, 1)), Answer::Done, "resets the count");
    }
}

#[test]
fn erase_keeps_labels_and_overwrite_does_not() {
    let mut platform = machine();
    run(&mut platform, Command::Region(false));
    // The info block of the namespace is on the second module of the set.
    security::erase(&mut platform, 1, Role::User, &Passphrase::ZERO).unwrap();
    run(&mut platform, Command::Region(true));
    let listed = list(&platform);
    assert!(listed.contains("namespace0.0") && listed.contains("\"mode\":\"raw\""), "{listed}");
    assert_eq!(run(&mut platform, Command::Overwrite(0)), Answer::Busy);
    run(&mut platform, Command::Region(false));
    assert_eq!(run(&mut platform, Command::Overwrite(0)), Answer::Done);
    assert_eq!(run(&mut platform, Command::Region(true)), Answer::RegionRefused);
    let refused = namespace::init_labels(&mut platform, 0, None, true).unwrap_err().to_string();
    assert!(refused.contains("overwrites its media"), "{refused}");
    let refused = goal::plan(&platform, &GoalRequest::default()).unwrap_err().to_string();
    assert!(refused.contains("overwrites its media"), "{refused}");
    assert_eq!(run(&mut platform, Command::Finish), Answer::Done);
    run(&mut platform, Command::Region(true));
    let listed = list(&platform);
    assert!(listed.contains("region0") && !listed.contains("uuid"), "no labels: {listed}");
}

/// ipmctl listed no master passphrase where there was one, and no overwrite in progress.
#[test]
fn ipmctl_lists_master_passphrase_and_overwrite() {
    let mut platform = Platform::new(Machine::parse(Machine::included("lab-pair").unwrap()).unwrap());
    let shown = |platform: &Platform| {
        let targets = Targets { modules: vec![platform.machine.modules[0].handle], ..Targets::default() };
        let names = ["MasterPassphraseEnabled", "OverwriteStatus"];
        let attributes = Attributes::Named(names.map(str::to_owned).to_vec());
        let display = DisplayOptions { attributes, ..DisplayOptions::default() };
        let text = ipmctl::show(platform, &Subject::Dimm, &targets, &display).unwrap();
        let value = |name: &str| {
            let found = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}=")));
            found.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
        };
        names.map(value)
    };
    assert_eq!(shown(&platform), ["0", "Unknown"]);
    assert_eq!(run(&mut platform, Command::Set(Role::Master, 0, 2)), Answer::Done);
    assert_eq!(shown(&platform), ["1", "Unknown"]);
    assert_eq!(run(&mut platform, Command::Overwrite(0)), Answer::Done);
    assert_eq!(shown(&platform), ["1", "In progress"]);
    assert_eq!(run(&mut platform, Command::Finish), Answer::Done);
    assert_eq!(shown(&platform), ["1", "Unknown"]);
}

#[test]
fn old_kernels_and_dead_modules_have_no_security() {
    let text = Machine::included("lab-pair").unwrap();
    let kernel = |version: &str| text.replacen("kernel = \"6.1\"", &format!("kernel = \"{version}\""), 1);
    let mut platform = Platform::new(Machine::parse(&kernel("4.18")).unwrap());
    let refused = security::freeze(&mut platform, 0).unwrap_err();
    assert!(matches!(refused, SecurityError::Unsupported { index: 0 }), "{refused}");
    let refused = security::freeze(&mut platform, 7).unwrap_err();
    assert!(matches!(refused, SecurityError::Module(ModuleError::UnknownDevice { index: 7 })), "{refused}");
    // Kernels before 5.4 show a freeze in place of the lock.
    for (version, word, flag) in [("5.3", "frozen", false), ("5.4", "unlocked", true)] {
        let mut platform = Platform::new(Machine::parse(&kernel(version)).unwrap());
        run(&mut platform, Command::Set(Role::User, 0, 1));
        run(&mut platform, Command::Freeze);
        assert_eq!(shown(&platform), (word.to_owned(), flag), "{version}");
    }
    let dead = text.replacen("locator", "health = \"Non-functional\"\nlocator", 1);
    let refused = security::freeze(&mut Platform::new(Machine::parse(&dead).unwrap()), 0).unwrap_err();
    assert!(matches!(refused, SecurityError::Module(ModuleError::DeadModule { .. })), "{refused}");
    let unsupported = text.replacen("locator", "security = \"Not supported\"\nlocator", 1);
    let refused = security::freeze(&mut Platform::new(Machine::parse(&unsupported).unwrap()), 0).unwrap_err();
    assert!(matches!(refused, SecurityError::Unsupported { .. }), "{refused}");
}

/// The passphrase of a module that a machine file describes as locked is not known.
#[test]
fn lock_of_machine_file_is_counted() {
    let text = Machine::included("lab-pair").unwrap();
    let locked = text.replacen("locator", "security = \"Locked\"\nlocator", 1);
    let mut platform = Platform::new(Machine::parse(&locked).unwrap());
    for left in (0..TRIES).rev() {
        assert_eq!(run(&mut platform, Command::Unlock(0)), Answer::Wrong { left });
    }
    assert_eq!(run(&mut platform, Command::Unlock(0)), Answer::Limit);
    run(&mut platform, Command::Start);
    assert_eq!(run(&mut platform, Command::Unlock(0)), Answer::Wrong { left: 4 });
    assert_eq!(run(&mut platform, Command::Erase(Role::Master, 0)), Answer::Done);
    assert_eq!(shown(&platform), ("disabled".into(), false));
}

fn directory() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("state");
    let (name, text) = INCLUDED[4];
    Directory::init(&root, Path::new(name), text).unwrap();
    (folder, root)
}

/// A state that a program without security wrote.
#[test]
fn old_state_is_taken_over() {
    let (_folder, root) = directory();
    let path = root.join("state.toml");
    let old = "format = 1\nboots = 3\n\n[[partition]]\nmodule = 1\nmemory = 0\nreserved = 0\n\n\
               [[partition]]\nmodule = 257\nmemory = 0\nreserved = 0\n\n[[set]]\nshare = 1073741824\nlabels = \"1.2\"\n\n\
               [[set.members]]\nmodule = 1\noffset = 268435456\n\n[[set.members]]\nmodule = 257\noffset = 268435456\n";
    fs::write(&path, old).unwrap();
    let mut directory = Directory::open(&root, Purpose::Change).unwrap();
    assert_eq!(shown(directory.platform()), ("disabled".into(), false));
    assert!(list(directory.platform()).contains("region0"));
    directory.change(|platform| region::enable(platform, 0, false)).unwrap();
    let written = fs::read_to_string(&path).unwrap();
    assert!(!written.contains("security"), "a state without passphrases has no new fields: {written}");
    directory
        .change(|platform| security::set_passphrase(platform, 0, Role::User, &passphrase(0), &passphrase(1)))
        .unwrap();
    drop(directory);
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.contains("[[security]]\nmodule = 1\nuser = \"hmac-sha256:"), "{written}");
    assert!(!written.contains("0101010101"), "never in clear: {written}");
    let directory = Directory::open(&root, Purpose::ReadOnly).unwrap();
    assert_eq!(shown(directory.platform()), ("unlocked".into(), false));
}

#[test]
fn edited_security_is_validated() {
    let (_folder, root) = directory();
    let mut directory = Directory::open(&root, Purpose::Change).unwrap();
    let set = |platform: &mut Platform| {
        security::set_passphrase(platform, 0, Role::User, &passphrase(0), &passphrase(1))?;
        Ok::<_, PlatformError>(boot::reboot(platform))
    };
    directory.change(set).unwrap();
    drop(directory);
    let sound = fs::read_to_string(root.join("state.toml")).unwrap();
    let hash = sound.lines().find(|line| line.starts_with("user = ")).unwrap();
    for (from, to, said) in [
        ("module = 1\n", "module = 9\n", "no module 0x0009"),
        (hash, "", "module 0x0001 can't be locked or frozen: it has no user passphrase"),
        (hash, "user = \"hmac-sha256:00\"", "the hash of a passphrase is"),
        ("locked = true", "locked = true\nuser_failures = 6", "can't count more than 5"),
        ("locked = true", "locked = 7", "invalid type"),
    ] {
        let edited = sound.replacen(from, to, 1);
        assert_ne!(edited, sound, "{from}");
        fs::write(root.join("state.toml"), &edited).unwrap();
        let refused = Directory::open(&root, Purpose::ReadOnly).unwrap_err().to_string();
        assert!(refused.contains(said) && refused.contains("undo the edit"), "{to}: {refused}");
    }
    let twice = sound.clone() + "\n[[security]]\nmodule = 1\n";
    fs::write(root.join("state.toml"), twice).unwrap();
    let refused = Directory::open(&root, Purpose::ReadOnly).unwrap_err().to_string();
    assert!(refused.contains("module 0x0001 is named twice"), "{refused}");
}
