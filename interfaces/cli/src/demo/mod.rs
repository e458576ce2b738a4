//! `lode demo`: a load that is killed repeatedly, and the cost of each operation on this machine.

mod kills;
mod measure;
mod show;
mod tables;
mod word_list;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::pool::check;
use clap::Args;
use console::style;
use lode_kv::{KvError, Store};
use lode_layout::Durability;
use lode_pool::CreateOptions;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use word_list::WordList;

/// Size of the demo's pools, in bytes.
const POOL_SIZE: u64 = 64 << 20;
/// Share of the time limit that loading may take.
const LOADING_SHARE: f64 = 0.6;

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("pool", "path of the pool, which is kept"),
    ("seed", "seed of the random moments and orders"),
    ("words", "words in the list"),
    ("acknowledged", "words that the loader acknowledged as durable"),
    ("complete", "whether all words were loaded before the time limit"),
    (
        "kills",
        "for each kill: {acknowledged, in_flight, replayed, reopen_us}; all acknowledged words were there",
    ),
    ("deleted", "words that were deleted again"),
    ("findings", "findings of the check: {severity, what, at, means}"),
    ("media", "for each medium: {durability, medium, stand_in, keys, bytes_per_key, reopen_us}"),
    (
        "operations",
        "for each operation on each: {durability, operation, count, ns, cycles, drains, lines, bytes}",
    ),
];

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Parent of the folder that is made for the pool [default: the folder for temporary files, or the current one]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// File with the words to load, one per line
    #[arg(long, value_name = "FILE", default_value = "/usr/share/dict/american-english")]
    words: PathBuf,
    /// Number of times that the loading process is killed
    #[arg(long, value_name = "N", default_value_t = 6)]
    kills: u32,
    /// Time limit: loading and deleting stop early to keep it
    #[arg(long, value_name = "SECONDS", default_value_t = 110, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Seed of the random moments and orders [default: a new one each time]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

/// State that all parts of the demo share.
struct DemoContext {
    json: bool,
    interrupt: Interrupt,
    deadline: Instant,
    number: u32,
}

impl DemoContext {
    /// Prints the title of the next part.
    fn begin_section(&mut self, title: &str) {
        self.number += 1;
        if !self.json {
            println!("\n{} {}", style(format!("{}.", self.number)).cyan().bold(), style(title).bold());
        }
    }

    /// Prints indented text, unless the output is JSON.
    fn print(&self, text: impl AsRef<str>) {
        if !self.json {
            for line in text.as_ref().lines() {
                println!("   {line}");
            }
        }
    }

    /// Returns a failure if the user has interrupted the demo.
    fn check_interrupt(&self) -> Result<(), Failure> {
        match self.interrupt.is_set() {
            true => Err(Failure::interrupted("interrupted; the demo's folder is removed")),
            false => Ok(()),
        }
    }
}

pub(crate) fn run(demo: &Demo, durability: Option<Durability>, json: bool) -> Result<Output, Failure> {
    let begin = Instant::now();
    let seed = demo.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut context = DemoContext {
        json,
        interrupt: Interrupt::listen()?,
        deadline: begin + Duration::from_secs(demo.seconds),
        number: 0,
    };
    context.begin_section("A pool in an ordinary file");
    let words = WordList::read(&demo.words)?;
    let (folder, pool) = make_pool(demo.folder.as_deref(), durability, &context)?;
    let input = words.write_tsv(folder.path())?;

    context.begin_section("Load words, one durable transaction each, and kill the loader");
    let until = begin + Duration::from_secs(demo.seconds).mul_f64(LOADING_SHARE);
    let loaded = kills::load(&context, &pool, &input, &words, demo.kills, until, &mut rng)?;

    context.begin_section("Scan and delete");
    let deleted = show::scan_and_delete(&context, &pool)?;
    let report = check::check(&pool)?;
    if report.is_damaged() {
        return Err(Failure::new("checking the demo's pool", report));
    }
    context.print(format!("check: {report}; all is as it was written"));

    context.begin_section("Costs on this medium");
    let measured = measure::measure_all(&context, folder.path(), durability, &words, &mut rng)?;
    context.print(tables::operations(&measured).to_string());
    context.print(tables::media(&measured).to_string());
    context.print(tables::LEGEND);

    let pool = folder.keep().join(pool.file_name().unwrap_or_default());
    context.begin_section("Try next");
    context.print(next_commands(&pool));
    Ok(Output::empty()
        .with("pool", pool.display().to_string())
        .with("seed", seed)
        .with("words", words.len())
        .with("acknowledged", loaded.acknowledged)
        .with("complete", loaded.complete)
        .with("kills", loaded.kills.iter().map(kills::Kill::to_json).collect::<Vec<_>>())
        .with("deleted", deleted)
        .with("findings", check::findings(&report))
        .with("media", tables::media_json(&measured))
        .with("operations", tables::operations_json(&measured)))
}

/// Creates the pool in a new folder: in `asked`, or in the first folder on a durable medium.
fn make_pool(
    asked: Option<&Path>,
    durability: Option<Durability>,
    context: &DemoContext,
) -> Result<(TempDir, PathBuf), Failure> {
    let places =
        asked.map_or_else(|| vec![env::temp_dir(), PathBuf::from(".")], |place| vec![place.to_owned()]);
    let mut failure = None;
    for place in places {
        let folder = tempfile::Builder::new().prefix("lode-demo-").tempdir_in(&place);
        let folder = match folder {
            Ok(folder) => folder,
            Err(error) => {
                failure = Some(Failure::io("making the demo's folder", &place, &error));
                continue;
            }
        };
        let path = folder.path().join("words.pool");
        let options = CreateOptions { durability, ..CreateOptions::new(POOL_SIZE, Store::layout_name()) };
        match Store::create(&path, &options) {
            Ok(store) => {
                let report = store.pool().report().to_string();
                store.close().map_err(Failure::of_pool("making the demo's pool", &path))?;
                context.print(format!("{}, {} MiB", path.display(), POOL_SIZE >> 20));
                context.print(format!("durability {report}"));
                return Ok((folder, path));
            }
            Err(error) => failure = Some(Failure::of_pool("making the demo's pool", &path)(error)),
        }
    }
    Err(failure
        .unwrap_or_else(|| Failure::new("making the demo's pool", io::Error::other("no place for it"))))
}

/// Returns a function that turns an error of the demo's pool into a failure.
fn of_pool(path: &Path) -> impl Fn(KvError) -> Failure + '_ {
    |error| Failure::of_pool("working with the demo's pool", path)(error)
}

fn next_commands(pool: &Path) -> String {
    let lode = env::args().next().unwrap_or_else(|| "lode".to_owned());
    let (pool, folder) = (pool.display(), pool.parent().unwrap_or(pool).display().to_string());
    format!(
        "{lode} kv get {pool} lodestone\n\
         {lode} kv scan {pool} --prefix magnet\n\
         {lode} kv put {pool} greeting 'hello, persistent world'\n\
         {lode} kv delete {pool} --prefix anti\n\
         {lode} pool info {pool}\n\
         {lode} pool stats {pool}\n\
         {lode} crash heap --images 20000 --seed 1      # power cuts, simulated: a report\n\
         {lode} bench                                   # side by side with other libraries\n\
         {lode} --help\n\
         rm -r {folder}      # removes what the demo made"
    )
}
