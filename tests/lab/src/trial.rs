//! A scenario on a kernel: its boots in order, and the verdict.

use crate::guest::{self, End, GuestOutput};
use crate::kernel::Kernel;
use crate::scenario::{Boot, Scenario};
use crate::{machine, root};
use anyhow::{Context, Result, bail, ensure};
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Number of times to start a machine that hangs before its init runs. None of our code has run by then.
const ATTEMPTS: u32 = 3;
/// Line that the kernel prints when it starts the init.
const INIT_RUNS: &str = "Run /init as init process";
/// Last line of the init of every guest.
const SUCCESS_LINE: &str = "lab: ended with status 0";
/// Texts that the kernel prints when it has detected a fault in itself.
const KERNEL_ERRORS: [&str; 5] =
    ["Kernel panic", "BUG:", "Oops:", "general protection fault", "WARNING: CPU"];

/// The folder whose files the guest finds in `/lab/host`.
const HOST: &str = "host";

/// The program and the libraries under test, for the scripts on this machine.
#[derive(Clone, Copy)]
pub(crate) struct Ours<'a> {
    /// The program `lode`.
    pub(crate) lode: &'a Path,
    /// The folder of libpmemobj, libpmempool, libpmem2 and libpmem.
    pub(crate) libraries: &'a Path,
}

/// A scenario, and the kernel that it runs on.
pub(crate) struct Trial<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) kernel: &'a Kernel,
    /// The archive of the guest's files.
    pub(crate) root: &'a Path,
    pub(crate) ours: Ours<'a>,
    /// The program that emulates the machine.
    pub(crate) qemu: PathBuf,
    /// The folder of the modules, the consoles and the output.
    pub(crate) folder: PathBuf,
}

impl Trial<'_> {
    /// Runs all boots. If all pass, removes the modules and the folders that were made; the logs stay.
    ///
    /// # Errors
    /// A boot did not do as it must, in words; the folder has the details.
    pub(crate) fn run(&self) -> Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        fs::create_dir_all(&self.folder)?;
        let mut printed = Vec::new();
        for (number, boot) in (1..).zip(&self.scenario.boots) {
            printed = self.boot(number, boot, &printed).with_context(|| format!("boot {number}"))?;
        }
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else if path.extension().is_some_and(|extension| extension == "img") {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Boots once and judges the output. Returns the output.
    fn boot(&self, number: usize, boot: &Boot, before: &[String]) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        if let Some(script) = &boot.before {
            lines.extend(self.run_on_host("before", number, script)?);
        }
        machine::make_modules(self.scenario, &self.folder)?;
        let initramfs = self.folder.join("initramfs");
        self.write_initramfs(&initramfs, boot, before)?;
        let console = self.folder.join(format!("console-{number}.log"));
        let complaints = self.folder.join(format!("qemu-{number}.log"));
        let mut attempts = 0;
        let mut printed = loop {
            let mut command = machine::command(
                &self.qemu,
                self.scenario,
                boot,
                self.kernel,
                &self.folder,
                Path::new(&format!("console-{number}.log")),
                &appended_words(boot, before)?,
            )?;
            command.stderr(File::create(&complaints)?);
            if self.scenario.on_libpmem {
                command.env("LD_LIBRARY_PATH", self.ours.libraries).env("LD_DEBUG", "files");
                command.env("LD_DEBUG_OUTPUT", self.folder.join("loader"));
            }
            let printed = guest::run(command, boot.killed_at.as_deref())?;
            attempts += 1;
            if printed.end == End::TimedOut && attempts < ATTEMPTS && hung_before_init(&console) {
                println!(
                    "{}: the emulated machine hung before its init ran; it is started again",
                    self.scenario.name
                );
                continue;
            }
            break printed;
        };
        fs::remove_file(initramfs)?;
        fs::write(self.folder.join(format!("printed-{number}.log")), printed.lines.join("\n") + "\n")?;
        lines.append(&mut printed.lines);
        // The script after the boot does not run for a guest that failed: its lines tell enough.
        let has_ended = lines.iter().any(|line| line == SUCCESS_LINE) || printed.end == End::Killed;
        if let Some(script) = boot.after.as_ref().filter(|_| has_ended) {
            lines.extend(self.run_on_host("after", number, script)?);
        }
        printed.lines = lines;
        let complaints = fs::read_to_string(complaints)?;
        // The console may hold bytes that are not UTF-8.
        let console = String::from_utf8_lossy(&fs::read(console).unwrap_or_default()).into_owned();
        match check_boot(boot, &printed, &console) {
            Err(error) if !complaints.is_empty() => {
                Err(error.context(format!("QEMU says: {}", complaints.trim())))
            }
            other => other.map(|()| printed.lines),
        }
    }

    /// Runs a script on this machine, in the trial's folder, with `lode` and a state directory of its own. Returns its
    /// output.
    fn run_on_host(&self, when: &str, number: usize, script: &str) -> Result<Vec<String>> {
        let log = self.folder.join(format!("{when}-{number}.log"));
        fs::create_dir_all(self.folder.join(HOST))?;
        let paths = env::var_os("PATH").unwrap_or_default();
        let own = self.ours.lode.parent().context("a program without a folder")?.to_owned();
        let paths = env::join_paths([own].into_iter().chain(env::split_paths(&paths)))?;
        let output = File::create(&log)?;
        let status = Command::new("/bin/sh")
            .args(["-eu", "-c", script])
            .current_dir(&self.folder)
            .env("PATH", paths)
            .env("LODE_STATE", "state")
            .env("KERNEL", self.kernel.series)
            .env("LAB", concat!(env!("CARGO_MANIFEST_DIR"), "/guest"))
            .env("CAPI", self.ours.libraries)
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output)
            .status()
            .context("/bin/sh")?;
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        ensure!(status.success(), "the script {when} the boot failed: {}", text.trim());
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Writes the guest's files, the script, the files from this machine, and the output of the boot before, as two
    /// archives one after the other.
    fn write_initramfs(&self, place: &Path, boot: &Boot, before: &[String]) -> Result<()> {
        let extra = self.folder.join("extra");
        fs::create_dir_all(extra.join("lab"))?;
        fs::write(extra.join("lab/run"), &boot.run)?;
        fs::write(extra.join("lab/printed"), before.join("\n") + "\n")?;
        fs::create_dir_all(extra.join("lab/host"))?;
        for entry in fs::read_dir(self.folder.join(HOST)).into_iter().flatten() {
            let entry = entry?;
            fs::copy(entry.path(), extra.join("lab/host").join(entry.file_name()))?;
        }
        let archive = self.folder.join("extra.cpio");
        root::pack(&extra, &archive)?;
        let mut initramfs = File::create(place)?;
        io::copy(&mut File::open(self.root)?, &mut initramfs)?;
        io::copy(&mut File::open(&archive)?, &mut initramfs)?;
        fs::remove_file(archive)?;
        fs::remove_dir_all(extra)?;
        Ok(())
    }
}

/// Returns the words to append to the kernel's command line, after a boot that printed these lines.
fn appended_words(boot: &Boot, before: &[String]) -> Result<String> {
    let Some(beginning) = &boot.append_printed else { return Ok(boot.append.clone()) };
    let mut words = before.iter().flat_map(|line| line.split_whitespace());
    let word = words.find(|word| word.starts_with(beginning));
    let word = word.with_context(|| format!("the boot before printed no word {beginning}..."))?;
    Ok(format!("{} {word}", boot.append))
}

/// Returns true if a kernel that printed this did not start its init.
fn hung_before_init(console: &Path) -> bool {
    !String::from_utf8_lossy(&fs::read(console).unwrap_or_default()).contains(INIT_RUNS)
}

/// Checks that a boot went as it must.
fn check_boot(boot: &Boot, printed: &GuestOutput, console: &str) -> Result<()> {
    let GuestOutput { lines, end } = printed;
    // Checked first: other failures follow from it.
    if let Some(line) =
        console.lines().find(|line| KERNEL_ERRORS.iter().any(|error_text| line.contains(error_text)))
    {
        bail!("the kernel says: {line}");
    }
    let last = || format!("the last lines are: {}", lines[lines.len().saturating_sub(2)..].join("; "));
    match (end, &boot.killed_at) {
        (End::TimedOut, _) => bail!(
            "it printed nothing for {} s, or still printed after {} s; {}",
            guest::LONGEST_SILENCE.as_secs(),
            guest::LONGEST_BOOT.as_secs(),
            last()
        ),
        (End::PoweredOff, Some(text)) => {
            bail!("it ended without printing what it was to be killed at, {text}; {}", last());
        }
        (End::PoweredOff, None) => {
            let good =
                lines.iter().rfind(|line| line.starts_with("lab: ")).is_some_and(|line| line == SUCCESS_LINE);
            ensure!(good, "the script failed; {}", last());
        }
        (End::Killed, _) => {}
    }
    let mut left = lines.iter();
    for want in &boot.prints {
        ensure!(left.any(|line| line.contains(want)), "it did not print, or not in this order: {want}");
    }
    for never in &boot.never {
        let found = lines.iter().find(|line| line.contains(never));
        ensure!(found.is_none(), "it printed what it must not: {}", found.map_or("", String::as_str));
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    fn passes(prints: &[&str], never: &[&str], killed_at: Option<&str>, lines: &[&str], end: End) -> bool {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let (run, prints, never) = (String::new(), owned(prints), owned(never));
        let killed_at = killed_at.map(str::to_owned);
        let boot = Boot { run, prints, never, killed_at, ..Boot::default() };
        check_boot(&boot, &GuestOutput { lines: owned(lines), end }, "[ 0.1] booting").is_ok()
    }

    #[test]
    fn boot_passes_only_with_expected_output() {
        let good = ["one line", "two lines", SUCCESS_LINE];
        assert!(passes(&["one", "two"], &["three"], None, &good, End::PoweredOff));
        assert!(!passes(&["two", "one"], &[], None, &good, End::PoweredOff), "another order");
        assert!(!passes(&["one", "one"], &[], None, &good, End::PoweredOff), "a line counts once");
        assert!(!passes(&["one"], &["two"], None, &good, End::PoweredOff), "what must not be there");
        assert!(!passes(&["one"], &[], None, &good[..2], End::PoweredOff), "no end");
        assert!(!passes(&["a"], &[], None, &["a", "lab: ended with status 1"], End::PoweredOff));
        assert!(!passes(&["one"], &[], None, &good, End::TimedOut));
        assert!(passes(&[], &[], Some("a"), &["a"], End::Killed));
        assert!(!passes(&[], &[], Some("x"), &good, End::PoweredOff), "it was to be killed");
    }

    #[test]
    fn hang_before_init_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console");
        assert!(hung_before_init(&console), "it printed nothing at all");
        for (text, hung) in [
            ("[    0.872385] clocksource: Switched to clocksource tsc-early\n", true),
            ("[    4.357540] Run /init as init process\n[    5.1] nd_pmem\n", false),
        ] {
            fs::write(&console, text).unwrap();
            assert_eq!(hung_before_init(&console), hung);
        }
    }

    #[test]
    fn kernel_errors_fail_boot() {
        let boot = Boot::default();
        let printed = GuestOutput { lines: vec![SUCCESS_LINE.to_owned()], end: End::PoweredOff };
        assert!(check_boot(&boot, &printed, "[ 0.1] fine").is_ok());
        assert!(check_boot(&boot, &printed, "[ 3.0] BUG: unable to handle page fault").is_err());
        let cut = GuestOutput { lines: Vec::new(), end: End::PoweredOff };
        let error =
            check_boot(&boot, &cut, "[ 3.0] Kernel panic - not syncing").map_err(|error| error.to_string());
        assert_eq!(error, Err("the kernel says: [ 3.0] Kernel panic - not syncing".to_owned()));
    }

    #[test]
    fn failed_script_reports_last_lines() {
        let lines = ["one", "lode: two", "lab: ended with status 1"].map(str::to_owned).to_vec();
        let error = check_boot(&Boot::default(), &GuestOutput { lines, end: End::PoweredOff }, "")
            .map_err(|error| error.to_string());
        let want = "the script failed; the last lines are: lode: two; lab: ended with status 1";
        assert_eq!(error, Err(want.to_owned()));
    }
}
