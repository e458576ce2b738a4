//! Passphrases in the kernel's keyring and in blobs lock and unlock the modules of a directory.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_platform::goal::{self, GoalRequest};
use lode_platform::machine::INCLUDED;
use lode_platform::ndctl;
use lode_platform::security::{self, KekHandle, Keyring, Role, Sanitizing, SealError, SecurityError};
use lode_platform::{Directory, Platform, PlatformError, boot, region};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const KEK: &[u8] = b"key of 32 bytes that seals keys.";

/// A machine whose keyring has the key-encryption-key. Its region is disabled.
struct Emulated {
    _folder: TempDir,
    directory: Directory,
    ring: Keyring,
    kek: KekHandle,
}

impl Emulated {
    /// Returns `None` if the kernel has no keyring for this process.
    fn new() -> Option<Emulated> {
        let folder = TempDir::new().unwrap();
        let root = folder.path().join("state");
        let (name, text) = INCLUDED[4];
        let mut directory = Directory::init(&root, Path::new(name), text).unwrap();
        let configure = |platform: &mut Platform| {
            let goals = goal::plan(platform, &GoalRequest::default())?;
            goal::create(platform, goals);
            boot::reboot(platform);
            Ok::<_, PlatformError>(())
        };
        directory.change(configure).unwrap();
        let ring = Keyring::open(&root).and_then(|ring| ring.add("nvdimm-master", KEK).map(|()| ring));
        let ring = match ring {
            Ok(ring) => ring,
            Err(error) => {
                lode_testing::skip("keys_unlock_modules", error);
                return None;
            }
        };
        let mut machine =
            Emulated { _folder: folder, directory, ring, kek: "user:nvdimm-master".parse().unwrap() };
        machine.region(false);
        Some(machine)
    }

    fn region(&mut self, enable: bool) {
        self.directory.change(|platform| region::enable(platform, 0, enable)).unwrap();
    }

    fn start(&mut self) {
        self.directory.change(|platform| Ok::<_, PlatformError>(boot::reboot(platform))).unwrap();
    }

    fn setup(&mut self, role: Role) -> Result<(), PlatformError> {
        security::setup_passphrase(&mut self.directory, 0, role, &self.kek)
    }

    fn shown(&self) -> (String, bool) {
        let module = ndctl::inventory(self.directory.platform()).buses[0].modules[0].clone();
        (module.security.unwrap(), module.security_frozen)
    }

    fn name(&self, role: Role) -> String {
        let id = self.directory.platform().machine.modules[0].identity.unwrap();
        match role {
            Role::User => format!("nvdimm:{id}"),
            Role::Master => format!("nvdimm-master:{id}"),
        }
    }

    fn key(&self, role: Role) -> Option<Vec<u8>> {
        self.ring.read(&self.name(role)).unwrap()
    }

    /// Returns the blobs with passphrases.
    fn blobs(&self) -> Vec<PathBuf> {
        let Ok(files) = fs::read_dir(self.keys()) else { return Vec::new() };
        let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        files.retain(|path| !path.ends_with("nvdimm-master.blob"));
        files.sort();
        files
    }

    fn keys(&self) -> PathBuf {
        self.directory.root().join("keys")
    }

    /// Writes the file from which `load_keys` takes the key-encryption-key.
    fn write_kek(&self, kek: &[u8]) {
        fs::write(self.keys().join("nvdimm-master.blob"), kek).unwrap();
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        for name in ["nvdimm-master".to_owned(), self.name(Role::User), self.name(Role::Master)] {
            self.ring.remove(&name).unwrap();
        }
    }
}

fn error_of<T: std::fmt::Debug>(refused: Result<T, PlatformError>) -> SecurityError {
    match refused {
        Err(PlatformError::Security(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_are_lost_at_start_and_loaded_again() {
    let Some(mut machine) = Emulated::new() else { return };
    machine.setup(Role::User).unwrap();
    assert_eq!(machine.shown(), ("unlocked".into(), false));
    let [blob] = &machine.blobs()[..] else { panic!("{:?}", machine.blobs()) };
    assert_eq!(fs::read(blob).unwrap(), machine.key(Role::User).unwrap());
    machine.start();
    assert_eq!(machine.shown(), ("locked".into(), false));
    assert_eq!((machine.key(Role::User), machine.ring.read("nvdimm-master").unwrap()), (None, None));
    assert!(!machine.directory.platform().regions()[0].enabled);
    let refused = error_of(security::unlock_with_key(&mut machine.directory, 0));
    assert!(matches!(refused, SecurityError::KeyNotLoaded { index: 0, .. }), "{refused}");
    let refused = error_of(security::load_keys(&mut machine.directory, None));
    assert!(matches!(refused, SecurityError::NoKekBlob { .. }), "{refused}");
    machine.write_kek(KEK);
    let loaded = security::load_keys(&mut machine.directory, None).unwrap();
    assert!(loaded.kek && loaded.failures.is_empty(), "{loaded:?}");
    assert_eq!((loaded.keys, loaded.unlocked), (1, vec![0]));
    assert_eq!(machine.shown(), ("unlocked".into(), false));
    assert!(machine.directory.platform().regions()[0].enabled);
    let again = security::load_keys(&mut machine.directory, None).unwrap();
    assert_eq!((again.kek, again.keys, again.unlocked), (false, 1, vec![]));
}

#[test]
fn updated_passphrase_replaces_blob_and_key() {
    let Some(mut machine) = Emulated::new() else { return };
    let refused = error_of(security::update_passphrase(&mut machine.directory, 0, Role::User, None));
    assert!(matches!(refused, SecurityError::NoKey { .. }), "{refused}");
    machine.setup(Role::User).unwrap();
    let old = fs::read(&machine.blobs()[0]).unwrap();
    machine.ring.remove(&machine.name(Role::User)).unwrap();
    security::update_passphrase(&mut machine.directory, 0, Role::User, None).unwrap();
    let new = fs::read(&machine.blobs()[0]).unwrap();
    assert_ne!(new, old);
    assert_eq!((machine.blobs().len(), machine.key(Role::User)), (1, Some(new.clone())));
    // A blob of before the update is a wrong passphrase, which the module counts durably.
    fs::write(&machine.blobs()[0], &old).unwrap();
    for left in (0..5).rev() {
        let refused = error_of(security::update_passphrase(&mut machine.directory, 0, Role::User, None));
        assert!(
            matches!(refused, SecurityError::WrongPassphrase { left: found, .. } if found == left),
            "{refused}"
        );
        let root = machine.directory.root().to_owned();
        let text = fs::read_to_string(root.join("state.toml")).unwrap();
        assert!(text.contains(&format!("user_failures = {}", 5 - left)), "{text}");
    }
    assert_eq!(machine.key(Role::User), Some(new.clone()), "the right key is not lost");
    fs::write(&machine.blobs()[0], &new).unwrap();
    let refused = error_of(security::update_passphrase(&mut machine.directory, 0, Role::User, None));
    assert!(matches!(refused, SecurityError::Limit { .. }), "{refused}");
    assert_eq!(machine.shown(), ("unlocked".into(), true));
    machine.start();
    machine.write_kek(KEK);
    assert_eq!(security::load_keys(&mut machine.directory, None).unwrap().unlocked, [0]);
}

#[test]
fn removed_passphrase_leaves_no_key() {
    let Some(mut machine) = Emulated::new() else { return };
    machine.setup(Role::User).unwrap();
    let refused = error_of(machine.setup(Role::User));
    assert!(matches!(refused, SecurityError::KeyPresent { .. }), "{refused}");
    machine.ring.remove(&machine.name(Role::User)).unwrap();
    let refused = error_of(machine.setup(Role::User));
    assert!(matches!(refused, SecurityError::BlobPresent { .. }), "{refused}");
    machine.region(true);
    let refused = error_of(security::remove_passphrase(&mut machine.directory, 0, Role::User));
    assert!(matches!(refused, SecurityError::RegionActive { .. }), "{refused}");
    machine.region(false);
    security::remove_passphrase(&mut machine.directory, 0, Role::User).unwrap();
    assert_eq!((machine.blobs(), machine.key(Role::User)), (vec![], None));
    assert_eq!(machine.shown(), ("disabled".into(), false));
    machine.start();
    assert_eq!(machine.shown(), ("disabled".into(), false));
    machine.ring.add("nvdimm-master", KEK).unwrap();
    machine.region(false);
    machine.setup(Role::User).unwrap();
}

#[test]
fn frozen_module_refuses_all_verbs_until_start() {
    let Some(mut machine) = Emulated::new() else { return };
    let refused = error_of(security::freeze_security(&mut machine.directory, 0));
    assert!(matches!(refused, SecurityError::Disabled { .. }), "{refused}");
    machine.setup(Role::User).unwrap();
    security::freeze_security(&mut machine.directory, 0).unwrap();
    assert_eq!(machine.shown(), ("unlocked".into(), true));
    let directory = &mut machine.directory;
    for refused in [
        security::update_passphrase(directory, 0, Role::User, None),
        security::remove_passphrase(directory, 0, Role::User),
        security::sanitize(directory, 0, Sanitizing::default()),
        security::sanitize(directory, 0, Sanitizing { overwrite: true, ..Sanitizing::default() }),
    ] {
        let refused = error_of(refused);
        assert!(matches!(refused, SecurityError::Frozen { .. }), "{refused}");
    }
    assert_eq!(machine.blobs().len(), 1);
    machine.start();
    assert_eq!(machine.shown(), ("locked".into(), false));
}

#[test]
fn sanitized_module_has_no_passphrase() {
    let Some(mut machine) = Emulated::new() else { return };
    let zero_key = Sanitizing { zero_key: true, ..Sanitizing::default() };
    let refused = error_of(security::sanitize(&mut machine.directory, 0, Sanitizing::default()));
    assert!(matches!(refused, SecurityError::NoKey { .. }), "{refused}");
    security::sanitize(&mut machine.directory, 0, zero_key).unwrap();
    machine.setup(Role::User).unwrap();
    let refused = error_of(security::sanitize(&mut machine.directory, 0, zero_key));
    assert!(matches!(refused, SecurityError::WrongPassphrase { left: 4, .. }), "{refused}");
    machine.region(true);
    let refused = error_of(security::sanitize(&mut machine.directory, 0, Sanitizing::default()));
    assert!(matches!(refused, SecurityError::RegionActive { region: 0, .. }), "{refused}");
    machine.region(false);
    let media = machine.directory.root().join("modules/0x0001.media");
    let file = fs::File::options().write(true).open(&media).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"secret", 1 << 29).unwrap();
    security::sanitize(&mut machine.directory, 0, Sanitizing::default()).unwrap();
    let mut found = [1; 6];
    std::os::unix::fs::FileExt::read_exact_at(&fs::File::open(&media).unwrap(), &mut found, 1 << 29).unwrap();
    assert_eq!(found, [0; 6]);
    assert_eq!(machine.shown(), ("disabled".into(), false));
    assert_eq!((machine.blobs(), machine.key(Role::User)), (vec![], None));
}

#[test]
fn master_passphrase_erases_without_the_user_passphrase() {
    let Some(mut machine) = Emulated::new() else { return };
    machine.setup(Role::Master).unwrap();
    machine.setup(Role::User).unwrap();
    assert_eq!(machine.blobs().len(), 2);
    let refused = error_of(security::remove_passphrase(&mut machine.directory, 0, Role::Master));
    assert!(matches!(refused, SecurityError::MasterRemoval { .. }), "{refused}");
    let master = Sanitizing { master: true, ..Sanitizing::default() };
    let refused = security::sanitize(&mut machine.directory, 0, Sanitizing { overwrite: true, ..master });
    assert!(matches!(error_of(refused), SecurityError::MasterOverwrite { .. }));
    security::update_passphrase(&mut machine.directory, 0, Role::Master, Some(&machine.kek.clone())).unwrap();
    machine.start();
    machine.ring.add("nvdimm-master", KEK).unwrap();
    security::sanitize(&mut machine.directory, 0, master).unwrap();
    assert_eq!(machine.shown(), ("disabled".into(), false));
    assert_eq!(machine.blobs().len(), 1, "the master passphrase stays");
}

#[test]
fn overwrite_ends_at_wait() {
    let Some(mut machine) = Emulated::new() else { return };
    machine.setup(Role::User).unwrap();
    let overwrite = Sanitizing { overwrite: true, ..Sanitizing::default() };
    security::sanitize(&mut machine.directory, 0, overwrite).unwrap();
    assert_eq!(machine.shown(), ("overwrite".into(), false));
    let directory = &mut machine.directory;
    for refused in [
        security::setup_passphrase(directory, 0, Role::Master, &machine.kek),
        security::update_passphrase(directory, 0, Role::User, None),
        security::remove_passphrase(directory, 0, Role::User),
        security::sanitize(directory, 0, overwrite),
        security::freeze_security(directory, 0),
        security::unlock_with_key(directory, 0).map(drop),
    ] {
        let refused = error_of(refused);
        assert!(matches!(refused, SecurityError::Overwriting { index: 0 }), "{refused}");
    }
    assert!(security::wait_overwrite(directory, 0).unwrap());
    assert!(!security::wait_overwrite(directory, 0).unwrap());
    assert_eq!(machine.shown(), ("unlocked".into(), false), "the passphrase stays");
    let both = Sanitizing { crypto_erase: true, ..overwrite };
    security::sanitize(&mut machine.directory, 0, both).unwrap();
    assert!(security::wait_overwrite(&mut machine.directory, 0).unwrap());
    assert_eq!(machine.shown(), ("disabled".into(), false));
}

#[test]
fn wrong_keys_are_reported() {
    let Some(mut machine) = Emulated::new() else { return };
    machine.ring.remove("nvdimm-master").unwrap();
    let refused = error_of(security::load_keys(&mut machine.directory, None));
    assert!(matches!(refused, SecurityError::NoKekBlob { .. }), "no folder yet: {refused}");
    machine.ring.add("nvdimm-master", KEK).unwrap();
    let other: KekHandle = "user:lode-test-missing".parse().unwrap();
    let refused = error_of(security::setup_passphrase(&mut machine.directory, 0, Role::User, &other));
    assert!(matches!(refused, SecurityError::NoKek { .. }), "{refused}");
    machine.setup(Role::User).unwrap();
    machine.start();
    let missing = machine.directory.root().join("missing");
    let refused = error_of(security::load_keys(&mut machine.directory, Some(&missing)));
    assert!(matches!(refused, SecurityError::File(_)), "{refused}");
    // Another key-encryption-key of the same name.
    machine.write_kek(b"another");
    let mut loaded = security::load_keys(&mut machine.directory, None).unwrap();
    assert_eq!((loaded.keys, loaded.unlocked.len(), loaded.failures.len()), (0, 0, 1));
    let failure = error_of(Err::<(), _>(loaded.failures.remove(0)));
    assert!(matches!(failure, SecurityError::Seal { error: SealError::Mac { .. }, .. }), "{failure}");
    assert_eq!(machine.shown(), ("locked".into(), false), "the module was not asked");
    let blob = machine.blobs().remove(0);
    for (bytes, said) in [
        (b"enc32 user:nvdimm-master 33 00".as_slice(), "it seals 33 bytes"),
        (b"", "a blob is a file of 1 to 4096 B"),
        (&[b'x'; 5000], "a blob is a file of 1 to 4096 B"),
        (&[0xff; 9], "the form of a sealed passphrase"),
    ] {
        fs::write(&blob, bytes).unwrap();
        let loaded = security::load_keys(&mut machine.directory, None).unwrap();
        let failure = loaded.failures[0].to_string();
        assert!(failure.contains(said) && failure.contains("put back the right"), "{failure}");
    }
    fs::write(machine.keys().join("tpm.handle"), "0x81000001").unwrap();
    let refused = error_of(security::load_keys(&mut machine.directory, None));
    assert!(matches!(refused, SecurityError::TpmHandle { .. }), "{refused}");
}

/// Two directories may hold the same machine.
#[test]
fn directories_do_not_share_keys() {
    let (Some(mut one), Some(mut other)) = (Emulated::new(), Emulated::new()) else { return };
    one.setup(Role::User).unwrap();
    assert_eq!(other.key(Role::User), None);
    other.setup(Role::User).unwrap();
    assert_ne!(one.key(Role::User), other.key(Role::User));
    other.start();
    assert!(one.key(Role::User).is_some());
}
