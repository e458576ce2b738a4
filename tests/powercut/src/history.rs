//! A program under test: threads whose transactions read and write the same few keys, and print what they have read.
//!
//! A transaction is one of
//! - *bank*: moves an amount from one account to another,
//! - *skew*: reads two switches, and turns one off only if the other one is on,
//! - *phantom*: scans a range, and adds the key after its last one, or removes its first one,
//! - *append*: reads two lists, and appends its name to one of them,
//! - *audit*: reads all keys.
//!
//! ```text
//!   B THREAD NUMBER           the transaction begins
//!   T THREAD NUMBER STEP...   an attempt is about to commit, and has taken these steps
//!   A THREAD NUMBER           it is durable
//! ```
//!
//! The order of the lines is that of time. Some order of the transactions must explain all that they have read, and the
//! keys in the pool after the program was killed: all transactions that were acknowledged, and some of those whose last
//! attempt was about to commit.

use crate::ledger;
use anyhow::{Context, Result, anyhow, bail, ensure};
use fastrand::Rng;
use lode_heap::{Pool, Tx};
use lode_index::{IndexError, Tree};
use lode_layout::{LayoutName, PoolOffset};
use lode_pmem::Mapping;
use lode_sim::{HistoryPrefix, Operation, Outcome, SerialOrders};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::mem;
use std::ops::Bound;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const ACCOUNTS: u64 = 4;
const START: u64 = 100;
/// Each in a node of the tree with an account, so that no node guards both.
const SWITCHES: [&str; 2] = ["0s", "1s"];
const LISTS: [&str; 2] = ["0l", "1l"];
/// Longest pause of a transaction before its first put, in microseconds, during which others change what it has read.
const PAUSE_MAX: u64 = 1000;
/// Number of keys above which a transaction removes one of the range.
const RANGE_MAX: usize = 6;
/// Length above which a list begins anew.
const LIST_MAX: usize = 60;

/// Keys, and their values: text without spaces and without `=`, `,` and `:`.
pub type Content = BTreeMap<String, String>;

/// A read or write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Get(String, Option<String>),
    /// A prefix, and the keys that begin with it.
    Scan(String, Vec<(String, String)>),
    Put(String, String),
    Delete(String),
}

impl Step {
    /// Applies the step. Returns false if it read anything else than there is.
    fn apply(&self, content: &mut Content) -> bool {
        match self {
            Step::Get(key, value) => content.get(key) == value.as_ref(),
            Step::Scan(prefix, found) => {
                let range = content.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(prefix));
                range.eq(found.iter().map(|(key, value)| (key, value)))
            }
            Step::Put(key, value) => {
                content.insert(key.clone(), value.clone());
                true
            }
            Step::Delete(key) => content.remove(key).is_some(),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Get(key, None) => write!(f, "get:{key}"),
            Step::Get(key, Some(value)) => write!(f, "get:{key}={value}"),
            Step::Scan(prefix, found) => {
                let pairs: Vec<String> = found.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "scan:{prefix}:{}", pairs.join(","))
            }
            Step::Put(key, value) => write!(f, "put:{key}={value}"),
            Step::Delete(key) => write!(f, "delete:{key}"),
        }
    }
}

fn pair(text: &str) -> Result<(String, String)> {
    let (key, value) = text.split_once('=').with_context(|| format!("no value in {text:?}"))?;
    Ok((key.to_owned(), value.to_owned()))
}

impl FromStr for Step {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Step> {
        let (kind, rest) = text.split_once(':').with_context(|| format!("no step: {text:?}"))?;
        Ok(match kind {
            "get" => match pair(rest) {
                Ok((key, value)) => Step::Get(key, Some(value)),
                Err(_) => Step::Get(rest.to_owned(), None),
            },
            "scan" => {
                let (prefix, found) = rest.split_once(':').with_context(|| format!("no scan: {text:?}"))?;
                let pairs = found.split(',').filter(|pair| !pair.is_empty()).map(pair);
                Step::Scan(prefix.to_owned(), pairs.collect::<Result<_>>()?)
            }
            "put" => pair(rest).map(|(key, value)| Step::Put(key, value))?,
            "delete" => Step::Delete(rest.to_owned()),
            _ => bail!("no step: {text:?}"),
        })
    }
}

/// A pool whose keys are in one tree.
#[derive(Debug)]
pub struct Keys {
    pool: Pool,
    root: PoolOffset,
}

impl Keys {
    /// Makes a pool of `size` bytes at `path` with the first keys, and closes it.
    ///
    /// # Errors
    /// Any error of pool, heap or tree.
    pub fn create(path: &Path, size: u64) -> Result<()> {
        let layout = LayoutName::new("history").ok().context("a layout name")?;
        ledger::create(path, size, layout, |heap| {
            let root = heap.run(|tx| {
                let root = Tree::create(tx)?;
                tx.set_root(root);
                Ok::<_, IndexError>(root)
            })?;
            let tree = Tree::open(heap, root)?;
            let accounts = (0..ACCOUNTS).map(|number| (account(number), START.to_string()));
            let switches = SWITCHES.map(|switch| (switch.to_owned(), "1".to_owned()));
            for (key, value) in accounts.chain(switches) {
                tree.insert(key.as_bytes(), value.as_bytes())?;
            }
            Ok(())
        })
    }

    /// Opens the pool at `path` at durability `commit`.
    ///
    /// # Errors
    /// Any error of pool or heap.
    pub fn open(path: &Path) -> Result<Keys> {
        let (pool, root) = ledger::open(path)?;
        Ok(Keys { pool, root })
    }

    /// Closes the pool.
    ///
    /// # Errors
    /// Any error of pool or heap.
    pub fn close(self) -> Result<()> {
        Ok(self.pool.close()?)
    }

    /// Returns all keys. Their number is the one that the tree has counted.
    ///
    /// # Errors
    /// Any error of the tree.
    pub fn content(&self) -> Result<Content> {
        let tree = Tree::open(self.pool.heap(), self.root)?;
        let reader = tree.reader();
        let content: Content = reader
            .iter()
            .map(|entry| {
                entry.map_err(anyhow::Error::from).and_then(|entry| text_of(&entry.key, &entry.value))
            })
            .collect::<Result<_>>()?;
        ensure!(tree.count()? == content.len() as u64, "the tree counts {} keys", tree.count()?);
        Ok(content)
    }

    /// Runs transactions of `thread` until one fails, and prints them.
    fn run_thread(&self, thread: u64, random: &mut Rng) -> Result<()> {
        let tree = Tree::open(self.pool.heap(), self.root)?;
        for number in 1u64.. {
            let (seed, name) = (random.u64(..), format!("{thread}.{number}"));
            writeln!(io::stdout(), "B {thread} {number}")?;
            self.pool.heap().run(|tx| {
                let pause = Duration::from_micros(seed % PAUSE_MAX);
                let mut work = Work { tree: &tree, tx, steps: Vec::new(), pause };
                work.transact(&mut Rng::with_seed(seed), &name)?;
                let steps: String = work.steps.iter().map(|step| format!(" {step}")).collect();
                Ok::<_, anyhow::Error>(writeln!(io::stdout(), "T {thread} {number}{steps}")?)
            })?;
            writeln!(io::stdout(), "A {thread} {number}")?;
        }
        Ok(())
    }
}

fn text_of(key: &[u8], value: &[u8]) -> Result<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
    Ok((text(key)?, text(value)?))
}

/// Returns the key of an account.
fn account(number: u64) -> String {
    format!("{number}a")
}

/// A transaction at work.
struct Work<'a, 'h> {
    tree: &'a Tree<'h, Arc<Mapping>>,
    tx: &'a Tx<'a, Arc<Mapping>>,
    steps: Vec<Step>,
    /// Time to wait before the first put.
    pause: Duration,
}

impl Work<'_, '_> {
    fn transact(&mut self, random: &mut Rng, name: &str) -> Result<()> {
        match random.u64(..9) {
            0..2 => self.transfer(random.u64(..ACCOUNTS), random.u64(..ACCOUNTS), random.u64(1..20)),
            2..4 => self.turn(random.usize(..2)),
            4..6 => self.add_last(name),
            6..8 => self.append(random.usize(..2), name),
            _ => self.scan("").map(drop),
        }
    }

    fn get(&mut self, key: &str) -> Result<Option<String>> {
        let found = self.tree.get_in(self.tx, key.as_bytes())?.map(String::from_utf8).transpose()?;
        self.steps.push(Step::Get(key.to_owned(), found.clone()));
        Ok(found)
    }

    fn number(&mut self, key: &str) -> Result<u64> {
        Ok(self.get(key)?.with_context(|| format!("{key} is not there"))?.parse()?)
    }

    fn scan(&mut self, prefix: &str) -> Result<Vec<(String, String)>> {
        let all = (Bound::Included(Vec::new()), Bound::Unbounded);
        let range = match prefix {
            "" => self.tree.range_in::<Vec<u8>>(self.tx, all)?,
            _ => self.tree.prefix_in(self.tx, prefix.as_bytes())?,
        };
        let mut found = Vec::new();
        for entry in range {
            let entry = entry?;
            found.push(text_of(&entry.key, &entry.value)?);
        }
        self.steps.push(Step::Scan(prefix.to_owned(), found.clone()));
        Ok(found)
    }

    fn put(&mut self, key: &str, value: String) -> Result<()> {
        thread::sleep(mem::take(&mut self.pause));
        self.tree.insert_in(self.tx, key.as_bytes(), value.as_bytes())?;
        self.steps.push(Step::Put(key.to_owned(), value));
        Ok(())
    }

    fn transfer(&mut self, from: u64, to: u64, amount: u64) -> Result<()> {
        let [from, to] = [from, to].map(account);
        let left = self.number(&from)?;
        let amount = amount.min(left);
        self.put(&from, (left - amount).to_string())?;
        let old = self.number(&to)?;
        self.put(&to, (old + amount).to_string())
    }

    fn turn(&mut self, mine: usize) -> Result<()> {
        let switches = [self.number(SWITCHES[0])?, self.number(SWITCHES[1])?];
        let next = if switches[mine] == 0 { 1 } else { 1 - switches[1 - mine] };
        self.put(SWITCHES[mine], next.to_string())
    }

    fn add_last(&mut self, name: &str) -> Result<()> {
        let found = self.scan("p")?;
        if found.len() > RANGE_MAX {
            let first = found[0].0.clone();
            self.tree.delete_in(self.tx, first.as_bytes())?;
            self.steps.push(Step::Delete(first));
            return Ok(());
        }
        let last = found.last().map_or(Ok(0), |(key, _)| key[1..].parse::<u64>())?;
        self.put(&format!("p{:06}", last + 1), name.to_owned())
    }

    fn append(&mut self, list: usize, name: &str) -> Result<()> {
        let lists = [self.get(LISTS[0])?, self.get(LISTS[1])?];
        let key = LISTS[list];
        match &lists[list] {
            Some(old) if old.len() <= LIST_MAX => self.put(key, format!("{old}+{name}")),
            _ => self.put(key, name.to_owned()),
        }
    }
}

/// Runs transactions of `threads` threads until one fails, and prints them.
///
/// # Errors
/// The error that ended the threads.
pub fn run(keys: &Keys, threads: u64, seed: u64) -> Result<()> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || keys.run_thread(thread, &mut Rng::with_seed(seed << 8 | thread)))
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("workers return their errors"))
    })
}

/// A transaction: its thread, its number, and the steps of its last attempt.
type Transaction = (u64, u64, Vec<Step>);

/// Returns the transactions of `output` that may have taken effect. A line that was cut short is ignored.
fn parse(output: &str) -> Result<Vec<Operation<Transaction>>> {
    let mut operations: Vec<Operation<Transaction>> = Vec::new();
    let lines = output.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    for (time, line) in lines.enumerate() {
        let mut words = line.split(' ');
        let (kind, mut number) = (words.next(), || words.next()?.parse::<u64>().ok());
        let (thread, number) = number().zip(number()).with_context(|| format!("no transaction: {line:?}"))?;
        let known =
            operations.iter_mut().rev().find(|known| known.what.0 == thread && known.what.1 == number);
        match (kind, known) {
            (Some("B"), None) => operations.push(Operation {
                thread: usize::try_from(thread)?,
                what: (thread, number, Vec::new()),
                begun: time,
                ended: None,
                outcome: Outcome::InFlight,
            }),
            (Some("T"), Some(known)) => known.what.2 = words.map(Step::from_str).collect::<Result<_>>()?,
            (Some("A"), Some(known)) => (known.ended, known.outcome) = (Some(time), Outcome::Returned),
            _ => bail!("out of place: {line:?}"),
        }
    }
    Ok(operations)
}

/// Compares the keys in a pool with the `output` of the program, which was killed. Returns the number of acknowledged
/// transactions.
///
/// # Errors
/// No order of the transactions explains what they read and the keys.
pub fn verify(first: &Content, output: &str, found: &Content) -> Result<usize> {
    let operations = parse(output)?;
    let acknowledged = operations.iter().filter(|operation| operation.outcome == Outcome::Returned).count();
    let history = HistoryPrefix::of(operations);
    let orders = SerialOrders::new(first.clone(), &history, |content, (_, _, steps): &Transaction| {
        steps.iter().all(|step| step.apply(content))
    });
    orders.check(found).map_err(|mismatch| anyhow!("{acknowledged} were acknowledged: {mismatch}"))?;
    Ok(acknowledged)
}

#[cfg(test)]
mod test {
    use super::*;

    const SKEW: &str =
        "B 0 1\nB 1 1\nT 0 1 get:s0=1 get:s1=1 put:s0=0\nT 1 1 get:s0=1 get:s1=1 put:s1=0\nA 0 1\n";

    fn content(switches: [&str; 2]) -> Content {
        (0..).zip(switches).map(|(number, value)| (format!("s{number}"), value.to_owned())).collect()
    }

    #[test]
    fn steps_round_trip() {
        let steps = "get:a0=7 get:l1 scan:p:p1=0.1,p2=1.4 scan:p: put:l0=0.1+1.2 delete:p1";
        let parsed: Vec<Step> = steps.split(' ').map(|step| step.parse().unwrap()).collect();
        assert_eq!(parsed.iter().map(Step::to_string).collect::<Vec<_>>().join(" "), steps);
        assert!("take:a0".parse::<Step>().is_err());
    }

    #[test]
    fn verify_finds_loss_and_skew() {
        let first = content(["1", "1"]);
        // The second transaction may not have committed, and the last line was cut short.
        assert_eq!(verify(&first, &format!("{SKEW}A 1 1"), &content(["0", "1"])).unwrap(), 1);
        for wrong in [["1", "1"], ["1", "0"], ["0", "0"]] {
            assert!(verify(&first, SKEW, &content(wrong)).is_err(), "{wrong:?}");
        }
        // Write skew.
        assert!(verify(&first, &format!("{SKEW}A 1 1\n"), &content(["0", "0"])).is_err());
        let later = format!("{SKEW}T 1 1 get:s0=0 get:s1=1 put:s1=1\nA 1 1\n");
        assert_eq!(verify(&first, &later, &content(["0", "1"])).unwrap(), 2);
    }
}
