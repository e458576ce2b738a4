//! Debian's `pmempool` on both libraries: the same outputs, exit codes and files.

use crate::{KilledRun, Killer, Library, Moment, in_memory, on_library};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A folder of pools, and the tool that works on them.
#[derive(Debug)]
pub struct Tool {
    folder: TempDir,
    ours: PathBuf,
}

/// A run of the tool.
#[derive(Clone, Debug)]
pub struct ToolRun {
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The answers to its questions.
    pub input: &'static str,
}

/// The content of files, by their names.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The results of some runs.
#[derive(Clone, Debug)]
pub struct ToolResults {
    /// Outputs and exit codes.
    pub text: String,
    /// The files that are there afterwards.
    pub files: Files,
}

/// A difference from Debian's library that is wanted: of its output, and ours.
struct WantedOutput {
    is: fn(&str, &str) -> bool,
    /// The first bytes of each file that may differ, too.
    differing: usize,
    #[allow(dead_code, reason = "the list is for its readers, too")]
    reason: &'static str,
}

/// Bytes of the header of a part.
const HEADER: usize = 4096;

const WANTED: &[WantedOutput] = &[
    WantedOutput {
        is: |theirs, ours| {
            let says = |text: &str| text.contains("invalid pmemblk.bsize\n");
            says(theirs) && says(ours) && ours.contains("not consistent")
        },
        differing: 0,
        reason: "PMDK's check names a wrong size of blocks and goes on, so that the pool may count as consistent",
    },
    WantedOutput {
        is: |theirs, ours| {
            ours.contains("pool_hdr.poolset_uuid") && !theirs.contains("pool_hdr.poolset_uuid")
        },
        differing: HEADER,
        reason: "PMDK keeps a wrong UUID of a block pool and makes a checksum for it, so that libpmemblk does not find the table \
                 again, which has the right one",
    },
    WantedOutput {
        is: |theirs, ours| {
            theirs.contains("no common pool_hdr.poolset_uuid") && !ours.contains("various poolsets")
        },
        differing: HEADER,
        reason: "PMDK gives a new UUID to the first part alone, so that the parts do not fit together, or makes one that the table \
                 has",
    },
    WantedOutput {
        is: |theirs, ours| {
            let says = |text: &str| text.contains("pool_hdr.features.incompat");
            let is_kept =
                !says(ours) || ours.contains("default value 0x7?") || ours.contains("incompat to 0x7\n");
            theirs.contains("\"single\"]") && says(theirs) && is_kept
        },
        differing: HEADER,
        reason: "PMDK takes SINGLEHDR out of a damaged header, so that no program can open the set any more",
    },
    WantedOutput {
        is: |theirs, ours| {
            let left = "unable to backup poolset\nerror: No such file or directory\n";
            theirs.contains(left) && theirs.replace("error: No such file or directory\n", "") == ours
        },
        differing: 0,
        reason: "PMDK leaves the errno of a part of the backup that is not there yet, which is no error",
    },
];

impl ToolRun {
    /// Returns a run with these arguments, without answers.
    pub fn of(arguments: &[&str]) -> ToolRun {
        ToolRun { arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(), input: "" }
    }
}

/// Bytes that are written at a time. Zeros are not written: most of a pool is zeros.
const CHUNK: usize = 4096;
const ZEROS: [u8; CHUNK] = [0; CHUNK];

impl Tool {
    /// Finds the tool, for libpmempool; `None`, and a line of a skipped test, if it is not installed.
    pub fn find() -> Option<Tool> {
        Tool::of(Library::PMEMPOOL)
    }

    /// Finds the tool, for this one of its libraries.
    pub fn of(library: Library) -> Option<Tool> {
        if Command::new("pmempool").arg("--version").output().is_err()
            || Library::PMEMPOOL.debians().is_none()
        {
            lode_testing::skip("pmempool_on_our_library", "pmdk-tools and libpmempool1 are not installed");
            return None;
        }
        Some(Tool { folder: in_memory(), ours: library.ours() })
    }

    /// Returns the folder. Set files hold its path, so both libraries work in it, one after the other.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the tool on Debian's library. The run must succeed.
    ///
    /// # Panics
    /// If it does not.
    pub fn make(&self, arguments: &[&str]) {
        let text = self.run(false, &ToolRun::of(arguments));
        assert!(text.starts_with("exit status: 0\n"), "{arguments:?}: {text}");
    }

    /// Returns the files that are there.
    pub fn files(&self) -> Files {
        let entries = fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap());
        let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries.map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect()
    }

    /// Takes the runs on one library, on these files.
    pub fn take(&self, is_ours: bool, files: &Files, runs: &[ToolRun]) -> ToolResults {
        self.restore(files);
        let text = runs.iter().map(|run| format!("{:?} {}", run.arguments, self.run(is_ours, run))).collect();
        ToolResults { text, files: self.files() }
    }

    /// Takes the runs on both libraries, and compares outputs, exit codes and files. Our messages may go on after Debian's words. A
    /// repair that the user refused leaves our files as they were; PMDK's keeps the steps before it.
    ///
    /// # Panics
    /// If they differ.
    pub fn compare(&self, files: &Files, runs: &[ToolRun], context: &str) -> ToolResults {
        let [theirs, ours] = [false, true].map(|is_ours| self.take(is_ours, files, runs));
        assert_alike(files, theirs, &ours, context);
        ours
    }

    /// Takes a run on our library, on these files, and kills it at this moment. The files stay as it leaves them.
    pub fn kill_at(&self, killer: &Killer, files: &Files, run: &ToolRun, moment: Moment) -> KilledRun {
        self.restore(files);
        let mut command = killer.command(moment, "pmempool".as_ref());
        self.prepare(&mut command, true, run);
        KilledRun::of(&command.stdin(Stdio::null()).output().unwrap())
    }

    fn restore(&self, files: &Files) {
        for name in self.files().keys().filter(|name| !files.contains_key(*name)) {
            fs::remove_file(self.folder().join(name)).unwrap();
        }
        // Times are in the messages.
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        for (name, bytes) in files {
            let path = self.folder().join(name);
            let file = File::create(&path).unwrap();
            file.set_len(bytes.len() as u64).unwrap();
            for (index, chunk) in
                bytes.chunks(CHUNK).enumerate().filter(|(_, chunk)| **chunk != ZEROS[..chunk.len()])
            {
                file.write_all_at(chunk, (index * CHUNK) as u64).unwrap();
            }
            file.set_modified(time).unwrap();
        }
    }

    fn prepare(&self, command: &mut Command, is_ours: bool, run: &ToolRun) {
        on_library(command, is_ours.then_some(&*self.ours));
        command.args(&run.arguments).current_dir(self.folder()).env("LC_ALL", "C").env("TZ", "UTC");
    }

    /// Takes a run on the files that are there. Returns its status, and what it prints.
    pub fn run(&self, is_ours: bool, run: &ToolRun) -> String {
        let mut command = Command::new("pmempool");
        self.prepare(&mut command, is_ours, run);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The tool may end before it asks.
        let _ = child.stdin.take().unwrap().write_all(run.input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let [out, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        format!("{}\n{out}{errors}\n", output.status)
    }
}

/// Checks that the results of runs on these files are the same, but for what is wanted, and random.
fn assert_alike(files: &Files, theirs: ToolResults, ours: &ToolResults, context: &str) {
    let mut want = theirs.files;
    if theirs.text.contains(REFUSAL) {
        // Backups were made before.
        let is_pool = |name: &str| name != "backup" && !name.starts_with('k');
        want.extend(files.clone().into_iter().filter(|(name, _)| is_pool(name)));
    }
    let wanted = WANTED.iter().filter(|wanted| (wanted.is)(&theirs.text, &ours.text));
    if let Some(differing) = wanted.map(|wanted| wanted.differing).max() {
        let after = |files: &Files| -> Files {
            files.iter().map(|(name, bytes)| (name.clone(), bytes_from(bytes, differing))).collect()
        };
        assert_same_files(&after(&want), &after(&ours.files), &format!("{context}\n{}", theirs.text));
        return;
    }
    // A run after a refusal finds other files.
    let [left, right] =
        [&theirs.text, &ours.text].map(|text| up_to_refusal(text).lines().collect::<Vec<&str>>());
    let is_same = left.len() == right.len()
        && left.iter().zip(&right).all(|(left, right)| right.starts_with(masked(left)));
    assert!(is_same, "{context}\nDebian's:\n{}\nours:\n{}", theirs.text, ours.text);
    // UUIDs that were made anew are others.
    if left.iter().zip(&right).all(|(left, right)| right.starts_with(left)) {
        assert_same_files(&want, &ours.files, &format!("{context}\n{}", theirs.text));
    }
}

/// Returns the bytes after the first ones; all bytes of a set file, which has no header.
fn bytes_from(bytes: &[u8], first: usize) -> Vec<u8> {
    bytes.get(first..).unwrap_or(bytes).to_vec()
}

/// Returns the text up to the end of a run whose repair was refused.
fn up_to_refusal(text: &str) -> &str {
    let refusal = text.find(REFUSAL).unwrap_or(text.len());
    let end = text[refusal..].find("\n\n").map_or(text.len(), |len| refusal + len);
    &text[..end]
}

/// The words after a refused repair.
const REFUSAL: &str = "reverting changes";

/// Returns the line without a value that is random, or follows from one.
fn masked(line: &str) -> &str {
    let is_value = line.contains("_uuid to ") || line.contains(".uuid to ") || line.contains("checksum to ");
    match line.split_once(" to ") {
        Some((words, _)) if is_value => words,
        _ => line,
    }
}

fn assert_same_files(theirs: &Files, ours: &Files, context: &str) {
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(theirs), names(ours), "{context}");
    for (name, bytes) in theirs {
        let ours = &ours[name];
        let differs = bytes.iter().zip(ours).position(|(left, right)| left != right);
        assert!(
            bytes.len() == ours.len() && differs.is_none(),
            "{context}\n{name} differs at {differs:?}, {} and {} bytes",
            bytes.len(),
            ours.len()
        );
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::panic::catch_unwind;

    /// A wanted difference of the output leaves the files to be compared, but for what it changes.
    #[test]
    fn files_are_compared_beside_wanted_outputs() {
        let set = "[\"check\", \"single\"] exit status: 0\n";
        let incompat = format!("{set}setting pool_hdr.features.incompat to 0x6\n");
        let size = "invalid pmemblk.bsize\n";
        for (theirs, ours, at, is_alike) in [
            (incompat.as_str(), set, Some(100), true),
            (&incompat, set, Some(HEADER), false),
            (&incompat, &incompat.replace("0x6", "0x7"), Some(100), true),
            (&incompat, &incompat.replace("0x6", "0x5"), Some(100), false),
            (size, &format!("{size}not consistent\n"), None, true),
            (size, &format!("{size}not consistent\n"), Some(100), false),
        ] {
            let files: Files = [("part".to_owned(), vec![7; 2 * HEADER])].into();
            let results = |text: &str| ToolResults { text: text.to_owned(), files: files.clone() };
            let (theirs, mut ours) = (results(theirs), results(ours));
            if let Some(at) = at {
                ours.files.get_mut("part").unwrap()[at] ^= 1;
            }
            let context = format!("{theirs:?}, {at:?}");
            let outcome = catch_unwind(|| assert_alike(&files, theirs, &ours, ""));
            assert_eq!(outcome.is_ok(), is_alike, "{context}");
        }
    }
}
