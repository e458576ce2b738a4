//! `lode volume bench`.

use crate::failure::Failure;
use crate::global_options::GlobalOptions;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::volume::failed;
use bytesize::ByteSize;
use clap::Args;
use lode_volume::{BenchError, BenchFigure, BenchOptions, BenchTarget};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

const WHAT: &str = "measuring writes";

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "the folder of the files that were written"),
    ("size", "size of each file in bytes"),
    ("warm_up_seconds", "seconds of the writes before those that count"),
    ("seconds", "seconds of the writes that count, of each target"),
    (
        "targets",
        "an object for each target: target (file, block or dax); medium, the durability of a volume and its evidence, else \
         null; iops, ns and mib_per_s, null if the file system does not know O_DIRECT; the same with published_ before it",
    ),
];

#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// A folder on the medium, or a volume in it, whose content is not touched
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Size of each file: 64MiB, 64M, 1GB, or a number of bytes
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = crate::size::parse)]
    size: u64,
    /// Seconds of the writes that count; three sevenths of them come before, as a warm-up
    #[arg(long, value_name = "SECONDS", default_value = "7", value_parser = parse_seconds)]
    seconds: f64,
}

/// Parses a number of seconds up to a day.
fn parse_seconds(word: &str) -> Result<f64, String> {
    let seconds: Option<f64> = word.parse().ok();
    seconds
        .filter(|seconds| (0.001..=86_400.0).contains(seconds))
        .ok_or_else(|| "a number of seconds is from 0.001 to 86400".to_owned())
}

/// The words of a target.
struct Row {
    name: &'static str,
    title: &'static str,
    /// IOPS, ns and MiB/s of the published measurement.
    published: (f64, f64, f64),
}

fn row(target: BenchTarget) -> Row {
    match target {
        BenchTarget::File => {
            Row { name: "file", title: "file, O_DIRECT and O_DSYNC", published: (14_553.0, 66_632.0, 56.85) }
        }
        BenchTarget::Block => {
            Row { name: "block", title: "block volume, FUA", published: (148_567.0, 6_418.0, 580.34) }
        }
        BenchTarget::Dax => Row {
            name: "dax",
            title: "DAX volume, copy and drain",
            published: (1_112_007.0, 828.0, 4_343.78),
        },
    }
}

/// Returns the folder to measure in.
fn folder(path: &Path) -> Result<PathBuf, Failure> {
    let kind = path.metadata().map_err(|error| Failure::io(WHAT, path, &error))?.file_type();
    if kind.is_dir() {
        return Ok(path.to_owned());
    }
    if !kind.is_file() {
        let why = format!("{}: neither a folder nor a file; name a folder on the medium", path.display());
        return Err(Failure::new(WHAT, why));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(parent.unwrap_or(Path::new(".")).to_owned())
}

pub(crate) fn run(bench: &Bench, options: &GlobalOptions) -> Result<Output, Failure> {
    let folder = folder(&bench.path)?;
    let interrupt = Interrupt::listen()?;
    let time = Duration::from_secs_f64(bench.seconds);
    let measurement = BenchOptions {
        size: bench.size,
        warm_up: time * 3 / 7,
        time,
        durability: options.durability.forced(),
    };
    let progress = Progress::spinner(WHAT);
    let mut watch = |_| if interrupt.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let mut figures = Vec::new();
    for target in BenchTarget::ALL {
        let figure = lode_volume::bench(&folder, target, &measurement, &mut watch).map_err(failure)?;
        figures.push((row(target), figure));
    }
    drop(progress);
    let warm_up = measurement.warm_up.as_secs_f64();
    let mut text = format!(
        "{}: random writes of 4 KiB, 1 thread, {}, {warm_up:.3} s warm-up, {:.3} s\n",
        folder.display(),
        ByteSize::b(bench.size),
        bench.seconds,
    );
    text += &table(&figures);
    text += &media(&figures);
    Ok(Output::text(text)
        .with("path", folder.display().to_string())
        .with("size", bench.size)
        .with("warm_up_seconds", warm_up)
        .with("seconds", bench.seconds)
        .with("targets", figures.iter().map(object).collect::<Vec<_>>()))
}

fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Volume(error) => failed(WHAT)(error),
        error @ BenchError::Interrupted => Failure::interrupted(format!("{WHAT}: {error}")),
        error => Failure::new(WHAT, error),
    }
}

/// Returns the rows, the published figures at their right.
fn table(figures: &[(Row, Option<BenchFigure>)]) -> String {
    let mut text = format!(
        "{:28}{:>10}{:>10}{:>10}   published:{:>10}{:>10}{:>10}\n",
        "target", "IOPS", "ns", "MB/s", "IOPS", "ns", "MB/s"
    );
    for (Row { title, published, .. }, figure) in figures {
        text += &match figure {
            Some(figure) => {
                format!("{title:28}{:10.0}{:10.0}{:10.2}", figure.iops(), figure.ns(), figure.mib_per_s())
            }
            None => format!("{title:28}{:>10}{:>10}{:>10}", "N/A", "N/A", "N/A"),
        };
        let (iops, ns, mib_per_s) = published;
        text += &format!("{:13}{iops:10.0}{ns:10.0}{mib_per_s:10.2}\n", "");
    }
    text
}

/// Returns the lines that tell what the volumes were measured on, and what the published figures are.
fn media(figures: &[(Row, Option<BenchFigure>)]) -> String {
    let mut text = String::new();
    for (Row { name, .. }, figure) in figures {
        match figure {
            Some(BenchFigure { report: Some(report), .. }) => {
                text += &format!("{name}: durability {report}\n");
            }
            Some(_) => {}
            None => text += &format!("{name}: N/A, the file system does not know O_DIRECT\n"),
        }
    }
    text + "published: an NVMe SSD, block mode and DAX mode of NVDIMM-N, on NTFS in 2016. MB are 2^20 bytes.\n"
}

fn object((Row { name, published, .. }, figure): &(Row, Option<BenchFigure>)) -> Value {
    let figure = figure.as_ref();
    json!({
        "target": name,
        "medium": figure.and_then(|figure| figure.report.as_ref()).map(ToString::to_string),
        "iops": figure.map(BenchFigure::iops),
        "ns": figure.map(BenchFigure::ns),
        "mib_per_s": figure.map(BenchFigure::mib_per_s),
        "published_iops": published.0,
        "published_ns": published.1,
        "published_mib_per_s": published.2,
    })
}
