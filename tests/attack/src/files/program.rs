//! Use of a pool through the program `lode`.

use crate::files::access::{Failure, Pair, PoolAccess, RepairResult, Response, ScanRequest};
use anyhow::{Context, Result};
use lode_kv::{Format, unescape};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a command is taken to hang. A command takes milliseconds.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// Exit codes of `lode` for: not done or not there, wrong usage, damaged.
const ERROR_CODES: [i32; 3] = [1, 2, DAMAGED];
const NOT_FOUND: i32 = 1;
const DAMAGED: i32 = 3;

/// Uses a pool as a user does, by `lode`.
#[derive(Clone, Debug)]
pub struct Program {
    lode: PathBuf,
    can_verify: bool,
}

/// The end of a command that did not break.
struct CommandResult {
    code: i32,
    out: Vec<u8>,
    err: String,
}

impl Program {
    /// Returns the program at `lode`.
    ///
    /// # Errors
    /// The program can't be run.
    pub fn new(lode: &Path) -> Result<Program> {
        let help = Command::new(lode).args(["kv", "get", "--help"]).output();
        let help = help.with_context(|| lode.display().to_string())?;
        let can_verify = String::from_utf8_lossy(&help.stdout).contains("--verify");
        Ok(Program { lode: lode.to_owned(), can_verify })
    }

    fn run(&self, arguments: &[OsString]) -> Response<CommandResult> {
        let crash = |how: String| Failure::Crash(format!("lode {arguments:?}: {how}"));
        let mut command = Command::new(&self.lode);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| crash(error.to_string()))?;
        let reads = [child.stdout.take().map(reader), child.stderr.take().map(reader)];
        let status = wait(&mut child).map_err(|error| crash(error.to_string()))?;
        let [out, err] = reads.map(|read| read.and_then(|read| read.join().ok()).unwrap_or_default());
        let err = String::from_utf8_lossy(&err).into_owned();
        match status {
            None => Err(crash(format!("it has not ended after {} s", COMMAND_LIMIT.as_secs()))),
            Some(status) => match status.code() {
                Some(code) if code == 0 || ERROR_CODES.contains(&code) => {
                    Ok(CommandResult { code, out, err })
                }
                code => Err(crash(format!("code {code:?}, signal {:?}: {err}", status.signal()))),
            },
        }
    }

    fn get_one(&self, pool: &Path, key: &[u8], verify: bool) -> Response<Option<Vec<u8>>> {
        if key.contains(&0) || (verify && !self.can_verify) {
            return Err(Failure::Unsupported);
        }
        let mut arguments = words(if verify { &["kv", "get", "--verify"] } else { &["kv", "get"] }, pool);
        arguments.extend(["--".into(), bytes(key)]);
        let mut result = self.run(&arguments)?;
        match result.code {
            0 => {
                // The newline after the value is not part of it.
                result.out.pop();
                Ok(Some(result.out))
            }
            NOT_FOUND if result.err.is_empty() => Ok(None),
            _ => Err(failure_of(result)),
        }
    }

    /// Runs the program, and returns its output if it succeeded.
    fn run_ok(&self, arguments: &[OsString]) -> Response<Vec<u8>> {
        let result = self.run(arguments)?;
        if result.code == 0 { Ok(result.out) } else { Err(failure_of(result)) }
    }

    fn pairs(&self, arguments: &[OsString]) -> Response<Vec<Pair>> {
        let out = self.run_ok(arguments)?;
        let lines = out.split_inclusive(|byte| *byte == b'\n');
        lines
            .map(|line| {
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                let pair = Format::Tsv.parse(line);
                pair.map(|pair| (pair.key, pair.value)).map_err(|error| Failure::Crash(error.to_string()))
            })
            .collect()
    }
}

/// Turns the end of a command into a refusal. It must have told the user an error.
fn failure_of(result: CommandResult) -> Failure {
    if result.err.is_empty() && result.code != DAMAGED {
        return Failure::Crash(format!("code {} without a word", result.code));
    }
    Failure::Error(result.err)
}

fn reader(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The bytes before an error are compared all the same.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

/// Waits for the end of the child. If the child takes too long, kills it and returns `None`.
fn wait(child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if since.elapsed() > COMMAND_LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn words(fixed: &[&str], pool: &Path) -> Vec<OsString> {
    fixed.iter().map(OsString::from).chain([pool.as_os_str().to_owned()]).collect()
}

fn bytes(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

impl PoolAccess for Program {
    fn export(&self, pool: &Path) -> Response<Vec<Pair>> {
        self.pairs(&words(&["kv", "export"], pool))
    }

    fn scan(&self, pool: &Path, request: &ScanRequest) -> Response<Vec<Pair>> {
        let mut arguments = words(&["kv", "scan"], pool);
        let mut option = |name: &str, value: &[u8]| {
            arguments.push(bytes(&[format!("--{name}=").as_bytes(), value].concat()));
        };
        if !request.prefix.is_empty() {
            option("prefix", &request.prefix);
        }
        if let Some(from) = &request.from {
            option("from", from);
        }
        if let Some(to) = &request.to {
            option("to", to);
        }
        if let Some(limit) = request.limit {
            option("limit", limit.to_string().as_bytes());
        }
        if request.reverse {
            arguments.push("--reverse".into());
        }
        if request.verify {
            if !self.can_verify {
                return Err(Failure::Unsupported);
            }
            arguments.push("--verify".into());
        }
        if arguments.iter().any(|argument| argument.as_bytes().contains(&0)) {
            return Err(Failure::Unsupported);
        }
        self.pairs(&arguments)
    }

    fn get(&self, pool: &Path, keys: &[Vec<u8>], verify: bool) -> Vec<Response<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get_one(pool, key, verify)).collect()
    }

    fn lookups(&self) -> usize {
        6
    }

    fn count(&self, pool: &Path) -> Response<u64> {
        let out = self.run_ok(&words(&["kv", "count"], pool))?;
        let text = String::from_utf8_lossy(&out);
        text.trim().parse().map_err(|_| Failure::Crash(format!("count prints {text:?}")))
    }

    fn check(&self, pool: &Path) -> Response<bool> {
        let result = self.run(&words(&["pool", "check"], pool))?;
        match result.code {
            0 => Ok(false),
            DAMAGED => Ok(true),
            _ => Err(failure_of(result)),
        }
    }

    fn repair(&self, pool: &Path) -> Response<RepairResult> {
        let result = self.run(&words(&["--durability", "none", "--json", "pool", "repair"], pool))?;
        if result.code != 0 && result.code != DAMAGED {
            return Err(failure_of(result));
        }
        let text = String::from_utf8_lossy(&result.out);
        let output: Value =
            serde_json::from_str(&text).map_err(|error| Failure::Crash(format!("{error}: {text}")))?;
        let end = |value: &Value| value.as_str().and_then(|text| unescape(text.as_bytes()).ok());
        let lost = output["lost"].as_array().map_or(&[][..], |lost| lost);
        let repaired = RepairResult {
            is_damaged: output["findings"]
                .as_array()
                .is_some_and(|findings| findings.iter().any(|finding| finding["severity"] == "damage")),
            lost_transactions: output["lost_transactions"] == true || output["dirty_shutdown"].is_object(),
            lost: lost.iter().map(|range| (end(&range["after"]), end(&range["before"]))).collect(),
        };
        let is_quiet = repaired == RepairResult::default();
        match (result.code, is_quiet) {
            (0, false) | (DAMAGED, true) => {
                Err(Failure::Crash(format!("code {} for {repaired:?}", result.code)))
            }
            _ => Ok(repaired),
        }
    }
}
