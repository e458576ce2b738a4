//! The settings of pmemlog_ctl_get(3), pmemblk_ctl_get(3) and their relatives: the four that belong to no pool.

use crate::failure::Failure;
use lode_pmdk::{CTL_FILE_LEN_MAX, CtlQuery, ctl_queries, ctl_text_of_file, ctl_words};
use std::ffi::{OsStr, OsString, c_int};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicI32, Ordering};

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Takes all pages of a pool when it is made.
    PrefaultAtCreate,
    /// Takes all pages of a pool when it is opened.
    PrefaultAtOpen,
    /// Gives new pools the shutdown state.
    ShutdownStateAtCreate,
    /// Keeps the stores to an opened pool in the process.
    CopyOnWriteAtOpen,
}

/// The settings, each with the parts of its name.
const SETTINGS: [(Setting, [&str; 2]); 4] = [
    (Setting::PrefaultAtCreate, ["prefault", "at_create"]),
    (Setting::PrefaultAtOpen, ["prefault", "at_open"]),
    (Setting::ShutdownStateAtCreate, ["sds", "at_create"]),
    (Setting::CopyOnWriteAtOpen, ["copy_on_write", "at_open"]),
];

static VALUES: [AtomicI32; SETTINGS.len()] =
    [AtomicI32::new(0), AtomicI32::new(0), AtomicI32::new(1), AtomicI32::new(0)];

impl Setting {
    /// Finds the setting of this name.
    ///
    /// # Errors
    /// EINVAL if there is none.
    pub fn named(name: &[u8]) -> Result<Setting, Failure> {
        let found = SETTINGS.iter().find(|(_, known)| ctl_words(name, b'.').eq(known.map(str::as_bytes)));
        found.map(|(setting, _)| *setting).ok_or_else(|| Setting::unknown(name))
    }

    /// Returns the failure of a name that no setting has, and of a call that the setting does not take.
    pub fn unknown(name: &[u8]) -> Failure {
        let names = SETTINGS.map(|(_, [first, second])| format!("{first}.{second}")).join(", ");
        let name = String::from_utf8_lossy(name);
        Failure::invalid(format!(
            "invalid query entry point {name}; the settings are {names}, to get and to set"
        ))
    }

    /// Returns its value.
    pub fn value(self) -> c_int {
        // ORDER: a number of its own, which orders nothing.
        VALUES[self as usize].load(Ordering::Relaxed)
    }

    /// Returns true if its value is not 0.
    pub fn is_set(self) -> bool {
        self.value() != 0
    }

    /// Sets its value.
    pub fn set(self, value: c_int) {
        // ORDER: a number of its own, which orders nothing.
        VALUES[self as usize].store(value, Ordering::Relaxed);
    }
}

/// Sets what the variables `PREFIX_CONF` and `PREFIX_CONF_FILE` say. Names and values that are not known are left out, as PMDK does.
///
/// # Errors
/// Fails if one of them can't be parsed. What stands before that place is set.
pub fn load_variables(prefix: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<(), Failure> {
    read_variables(prefix, variable, &mut |query| {
        if let (Some(is_set), Ok(setting)) = (query.switch(), Setting::named(query.name)) {
            setting.set(is_set.into());
        }
        Ok(())
    })
}

/// Calls `apply` with each query of the variables `PREFIX_CONF` and `PREFIX_CONF_FILE`.
///
/// # Errors
/// Fails if one of them can't be parsed, or `apply` refuses a query. What stands before that place is applied.
pub fn read_variables(
    prefix: &str,
    variable: &dyn Fn(&str) -> Option<OsString>,
    apply: Apply<'_>,
) -> Result<(), Failure> {
    let name = format!("{prefix}_CONF");
    if let Some(text) = variable(&name) {
        load(text.as_bytes(), apply).map_err(|text| {
            Failure::invalid(format!("unable to parse config stored in {name} environment variable; {text}"))
        })?;
    }
    let name = format!("{prefix}_CONF_FILE");
    if let Some(path) = variable(&name).filter(|path| !path.is_empty()) {
        load_file(&path, apply).map_err(|text| {
            let path = path.to_string_lossy();
            Failure::invalid(format!(
                "unable to parse config stored in {path} file (from {name} environment variable); {text}"
            ))
        })?;
    }
    Ok(())
}

/// Applies a query, or says why it can't be.
type Apply<'a> = &'a mut dyn FnMut(&CtlQuery<'_>) -> Result<(), String>;

/// Applies what a file says, whose white space and comments have no meaning.
fn load_file(path: &OsStr, apply: Apply<'_>) -> Result<(), String> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(CTL_FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > CTL_FILE_LEN_MAX {
        return Err(format!("it is longer than {CTL_FILE_LEN_MAX} bytes"));
    }
    load(&ctl_text_of_file(&bytes), apply)
}

/// Applies what a text of the form `NAME=VALUE;...` says.
fn load(text: &[u8], apply: Apply<'_>) -> Result<(), String> {
    ctl_queries(text).try_for_each(|query| apply(&query.map_err(|error| error.to_string())?))
}

/// Held by the tests that change settings, which are those of the process.
#[cfg(test)]
pub(crate) static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod test {
    use super::*;

    fn values() -> [c_int; 4] {
        SETTINGS.map(|(setting, _)| setting.value())
    }

    #[test]
    fn names_are_parsed_as_pmdk_does() {
        for (name, wanted) in [
            ("prefault.at_create", Some(Setting::PrefaultAtCreate)),
            ("..sds...at_create.", Some(Setting::ShutdownStateAtCreate)),
            ("copy_on_write.at_open", Some(Setting::CopyOnWriteAtOpen)),
            ("prefault", None),
            ("prefault.at_open.x", None),
            ("at_open", None),
            ("", None),
        ] {
            assert_eq!(Setting::named(name.as_bytes()).ok(), wanted, "{name}");
        }
        let failure = Setting::named(b"x").unwrap_err();
        assert!(failure.text.starts_with("invalid query entry point x; "), "{failure:?}");
    }

    #[test]
    fn variables_and_files_set() {
        let _alone = ALONE.lock();
        assert_eq!(values(), [0, 0, 1, 0]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conf");
        fs::write(
            &path,
            "# prefault.at_create = 1;\nprefault . at_open\n = yes; # x\n;copy_on_write.at_open=1;",
        )
        .unwrap();
        let variable = |name: &str| match name {
            "PMEMLOG_CONF" => Some("sds.at_create=No;;unknown=1;prefault.at_create=x;".into()),
            "PMEMLOG_CONF_FILE" => Some(path.clone().into_os_string()),
            _ => None,
        };
        load_variables("PMEMBLK", &variable).unwrap();
        assert_eq!(values(), [0, 0, 1, 0]);
        load_variables("PMEMLOG", &variable).unwrap();
        assert_eq!(values(), [0, 1, 0, 1]);
        for (name, text) in [("X_CONF", "a=b=c"), ("X_CONF", "=1"), ("X_CONF_FILE", "/missing/file")] {
            let failure = load_variables("X", &|asked| (asked == name).then(|| text.into())).unwrap_err();
            assert!(failure.text.starts_with("unable to parse config stored in "), "{failure:?}");
        }
        for ((setting, _), value) in SETTINGS.iter().zip([0, 0, 1, 0]) {
            setting.set(value);
        }
    }
}
