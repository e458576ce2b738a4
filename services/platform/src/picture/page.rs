//! HTML page around the drawing: one file without references to others.

use super::scene::Scene;
use super::style::{COLOURS, DRAWING, PAGE, hues};
use super::svg::{self, escape};
use crate::plan::Table;
use crate::platform::Platform;

/// Draws sockets, modules, interleave sets, regions and namespaces as one page with an SVG drawing. The page
/// references no other file, supports light and dark mode, and has tooltips with details.
pub fn page(platform: &Platform) -> String {
    let scene = Scene::of(platform);
    let name = escape(&platform.machine.name);
    let summary = escape(&scene.summary().join(" · "));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{name}</title>\n<style>{COLOURS}{PAGE}{DRAWING}{}</style></head>\n\
         <body><main>\n<h1>{name}</h1>\n<p>{summary}</p>\n{}<div class=\"drawing\">\n{}</div>\n{}{}</main></body></html>\n",
        hues(),
        legend(),
        svg::draw(&scene, ""),
        cxl_list(platform),
        rows(platform)
    )
}

/// Lists the CXL devices.
fn cxl_list(platform: &Platform) -> String {
    let lines = platform.machine.cxl.device_lines();
    let items: String = lines.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
    if items.is_empty() { items } else { format!("<ul>{items}</ul>\n") }
}

/// Formats the same values as table rows, for search and copy.
fn rows(platform: &Platform) -> String {
    let cells = |tag: &str, cells: &[String]| {
        cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect::<String>()
    };
    let head = cells("th", &Table::HEAD.map(str::to_owned));
    let rows = Table::of(platform).rows;
    let body: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", &row.cells()))).collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n"
    )
}

fn legend() -> String {
    let all = [
        ("--memory", "volatile memory"),
        ("--h0", "persistent, in the colour of its region"),
        ("--blank", "not configured, or free"),
        ("--kept", "kept by firmware"),
        ("--fsdax", "fsdax"),
        ("--devdax", "devdax"),
        ("--sector", "sector"),
        ("--raw", "raw"),
    ];
    let items =
        all.map(|(colour, words)| format!("<li><i style=\"background:var({colour})\"></i>{words}</li>"));
    format!("<ul>{}<li><i class=\"stripes\"></i>reserved</li></ul>\n", items.concat())
}
