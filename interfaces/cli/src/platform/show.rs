//! `lode platform show`.

use super::{MachineLocation, OpenedMachine, write_atomically};
use crate::failure::Failure;
use crate::fields;
use crate::ndctl::listing_value;
use crate::output::Output;
use clap::Args;
use console::Term;
use lode_platform::discovery::Shown;
use lode_platform::ndctl::{self, Included, Inventory, ListRequest};
use lode_platform::picture::{self, Palette, Scene};
use std::path::{Path, PathBuf};

/// Width of a picture, in columns, if the output is not a terminal.
const WIDTH: usize = 100;

const FIELDS: &[(&str, &str)] = &[
    ("buses", "each with its modules, regions and namespaces, as `ndctl list -BDRNHXMi` prints them"),
    ("html", "with --html FILE: the file"),
    ("page", "with --html -: the page"),
    ("svg", "with --svg FILE: the file"),
    ("drawing", "with --svg -: the drawing"),
];

/// Draw modules, regions and namespaces of a machine, emulated or real
#[derive(Args, Debug)]
#[command(after_long_help = fields::help(FIELDS))]
pub(crate) struct Show {
    #[command(flatten)]
    location: MachineLocation,
    /// Write a page with a drawing to this file, replacing it; `-` is standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the drawing alone to this file, as SVG, replacing it; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "html")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(show: &Show) -> Result<Output, Failure> {
    let (scene, inventory) = match show.location.open_read_only()? {
        OpenedMachine::Emulated(directory) => {
            let platform = directory.platform();
            (Scene::of(platform), ndctl::inventory(platform))
        }
        OpenedMachine::Real(sysfs) => {
            let shown = Shown::read(&sysfs);
            (Scene::of_shown(&shown), shown.inventory)
        }
    };
    match (&show.html, &show.svg) {
        (Some(path), _) => written(picture::page(&scene), path, ["html", "page"]),
        (None, Some(path)) => written(picture::drawing(&scene), path, ["svg", "drawing"]),
        (None, None) => Ok(output(drawing(&scene), &inventory)),
    }
}

/// Writes a picture to a file, or to standard output for `-`. The two JSON fields have the path and the picture.
fn written(picture: String, path: &Path, [file, content]: [&'static str; 2]) -> Result<Output, Failure> {
    if path == Path::new("-") {
        return Ok(Output::text(picture.clone()).with(content, picture));
    }
    write_atomically("writing a picture", path, picture.as_bytes())?;
    let path = path.display().to_string();
    Ok(Output::text(format!("{path}\n")).with(file, path))
}

/// Draws a machine in the width and the colours of the terminal.
pub(super) fn drawing(scene: &Scene) -> String {
    let term = Term::stdout();
    let width = term.size_checked().map_or(WIDTH, |(_, columns)| columns.into());
    let colour = term.is_term() && console::colors_enabled();
    let palette = if colour { Palette::Colour } else { Palette::Plain };
    picture::terminal(scene, width, palette)
}

/// Returns the output that draws a machine for people, and lists it for programs.
fn output(drawing: String, inventory: &Inventory) -> Output {
    let included = Included {
        buses: true,
        modules: true,
        regions: true,
        namespaces: true,
        health: true,
        dax: true,
        media_errors: true,
        idle: true,
        ..Included::default()
    };
    let request = ListRequest { included, ..ListRequest::default() };
    Output::text(drawing).with("buses", listing_value(&inventory.list(&request)))
}
