//! load-words and file-bytes: a word list goes into an empty store, by the programs that users have for that.
//!
//! The time is that of the whole: making the file, loading, closing. `lode` and `sqlite3` are processes of their own;
//! redb has no program, so its pairs are put in this process, in one transaction. Afterwards all must hold the same keys.

use super::Findings;
use crate::clock::lap;
use crate::engine::{Database, Engine, NoFigure};
use crate::figure::Figure;
use crate::group::Durability;
use crate::keys::WORDS;
use crate::ours;
use crate::peers::{RedbDatabase, SqliteDatabase};
use crate::plan::{Selection, Size};
use crate::program;
use crate::rounds::{Measured, common_digest, run_interleaved};
use anyhow::{Context, Error, Result, bail, ensure};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Times the limit of one transaction that a load of ours may take.
const LIMIT: u32 = 3;
/// Bytes of a block of `st_blocks`.
const BLOCK: u64 = 512;
/// The table of SQLite.
const TABLE: &str = "words";

/// One engine: how it loads, and what its file holds then.
struct Loader {
    engine: Engine,
    path: PathBuf,
    /// Bytes on disk after the last load.
    bytes: u64,
    /// The digest of the keys after the last load.
    digest: u64,
}

/// Runs the rows.
pub(super) fn run(selection: &Selection, size: &Size, folder: &Path) -> Result<Findings> {
    let words = folder.join("words");
    let text = fs::read(WORDS).with_context(|| format!("{WORDS}: install wamerican-insane"))?;
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').take(size.words).collect();
    fs::write(&words, lines.concat())?;
    let engines = [Engine::Ours, Engine::Sqlite, Engine::Redb];
    let mut engines = engines.map(|engine| {
        (engine, Loader { engine, path: folder.join(format!("{engine}-words")), bytes: 0, digest: 0 })
    });
    let program = program::lode();
    let mut comparisons =
        run_interleaved(&["load-words"], size.load_rounds, false, &mut engines, |_, engine, loader| {
            let program = match &program {
                Some(program) => program.as_path(),
                None if engine == Engine::Ours => {
                    return Ok(vec![Measured::Absent(program::NO_LODE.to_owned())]);
                }
                None => Path::new(""),
            };
            loader.remove_files()?;
            let limit = size.overdue * LIMIT;
            let (lap, loaded) = lap(lines.len() as u64, || loader.load(program, &words, limit));
            let measured = Measured::of(lap, loaded)?;
            if let Measured::Lap(_) = measured {
                loader.examine()?;
            }
            Ok(vec![measured])
        })?;
    let has_laps = |engine| comparisons[0].entries.iter().any(|entry| entry.engine == engine);
    let ran = engines.iter().map(|(_, loader)| loader).filter(|loader| has_laps(loader.engine));
    let (digests, sizes): (Vec<_>, Vec<_>) =
        ran.map(|loader| ((loader.engine, loader.digest), (loader.engine, loader.bytes))).unzip();
    comparisons[0].digest = common_digest("load-words", &digests)?;
    let bytes = |engine| sizes.iter().find(|(of, _)| *of == engine).map(|(_, bytes)| *bytes as f64);
    let mut findings = Findings { comparisons, ..Findings::default() };
    if let (Some(ours), Some(sqlite)) = (bytes(Engine::Ours), bytes(Engine::Sqlite)) {
        findings.figures.push(Figure { workload: "file-bytes".to_owned(), value: ours / sqlite });
    }
    let sizes: Vec<String> = sizes.iter().map(|(engine, bytes)| format!("{engine} {bytes}")).collect();
    findings.notes.push(format!(
        "file-bytes: bytes on disk after {} words: {}",
        lines.len(),
        sizes.join(", ")
    ));
    if !selection.has("load-words") {
        findings.comparisons.clear();
    }
    Ok(findings)
}

impl Loader {
    /// Loads the lines of `words` as keys into a new file.
    fn load(&self, lode: &Path, words: &Path, limit: Duration) -> Result<()> {
        match self.engine {
            Engine::Ours => {
                let mut create = Command::new(lode);
                create.args(["pool", "create"]).arg(&self.path);
                run_for(limit, &mut create)?;
                let mut load = Command::new(lode);
                load.args(["kv", "load", "--format", "keys"]).arg(&self.path).arg(words);
                run_for(limit, &mut load)
            }
            Engine::Sqlite => self.import(words),
            Engine::Redb => {
                let text = fs::read(words)?;
                let keys = text.split(|byte| *byte == b'\n').filter(|key| !key.is_empty());
                let none: &[u8] = &[];
                RedbDatabase::open(&self.path)?.put_in_one(keys.map(|key| (key, none)))
            }
            other => bail!("{other} loads no words"),
        }
    }

    /// Lets the program `sqlite3` import the words.
    fn import(&self, words: &Path) -> Result<()> {
        let script = format!(
            ".bail on\nPRAGMA journal_mode = WAL;\nPRAGMA synchronous = FULL;\n\
             CREATE TABLE {TABLE} (key TEXT PRIMARY KEY) WITHOUT ROWID;\n.mode ascii\n.separator \"\\t\" \"\\n\"\n\
             .import '{}' {TABLE}\n",
            words.display()
        );
        let mut child = Command::new("sqlite3")
            .arg("-batch")
            .arg(&self.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("sqlite3: install the packages of packages.txt")?;
        child.stdin.take().context("asked for above")?.write_all(script.as_bytes())?;
        check(&child.wait_with_output()?).context("sqlite3")
    }

    /// Notes what the closed file holds, and how much of the disk it takes.
    fn examine(&mut self) -> Result<()> {
        self.bytes = fs::metadata(&self.path)?.blocks() * BLOCK;
        self.digest = match self.engine {
            Engine::Ours => ours::open_database(&self.path, Durability::Commit, Duration::MAX)?.scan()?,
            Engine::Sqlite => SqliteDatabase::scan_keys(&self.path, TABLE)?,
            _ => RedbDatabase::open(&self.path)?.scan()?,
        };
        Ok(())
    }

    /// Removes the file of the round before.
    fn remove_files(&self) -> Result<()> {
        if self.path.exists() {
            fs::remove_file(&self.path)?;
        }
        Ok(())
    }
}

/// Fails if a program failed, with what it said.
fn check(output: &Output) -> Result<()> {
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it ended with {}: {}", output.status, said.trim());
    Ok(())
}

/// Runs `lode`, and kills it when the time is over.
fn run_for(limit: Duration, command: &mut Command) -> Result<()> {
    let began = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    while child.try_wait()?.is_none() {
        if began.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Err(Error::new(NoFigure(format!("given up after {} s", limit.as_secs()))));
        }
        thread::sleep(Duration::from_millis(1));
    }
    check(&child.wait_with_output()?).context("lode")
}
