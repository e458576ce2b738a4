//! HTML page around the drawing: one file without references to others.

use super::scene::{Content, Scene, SocketView, Use, amount, size_text};
use super::style::{COLOURS, DRAWING, PAGE, hues};
use super::svg::{self, escape};
use crate::plan::Table;

/// Draws sockets, modules, interleave sets, regions and namespaces as one page with an SVG drawing. The page
/// references no other file, supports light and dark mode, and has tooltips with details.
pub fn page(scene: &Scene) -> String {
    let name = escape(&scene.name);
    let summary = escape(&scene.summary.join(" · "));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{name}</title>\n<style>{COLOURS}{PAGE}{DRAWING}{}</style></head>\n\
         <body><main>\n<h1>{name}</h1>\n<p>{summary}</p>\n{}<div class=\"drawing\">\n{}</div>\n{}{}</main></body></html>\n",
        hues(),
        legend(),
        svg::draw(scene, ""),
        cxl_list(scene),
        rows(scene)
    )
}

/// Lists the CXL devices.
fn cxl_list(scene: &Scene) -> String {
    let items: String = scene.cxl.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
    if items.is_empty() { items } else { format!("<ul>{items}</ul>\n") }
}

/// Formats the same values as table rows, for search and copy.
fn rows(scene: &Scene) -> String {
    let cells = |tag: &str, cells: &[String]| {
        cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect::<String>()
    };
    let head = cells("th", &Table::HEAD.map(str::to_owned));
    let rows = scene.sockets.iter().flat_map(socket_rows);
    let body: String = rows.map(|row| format!("<tr>{}</tr>\n", cells("td", &row))).collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n"
    )
}

/// Returns the rows of a socket, with cells for the columns of [`Table::HEAD`].
fn socket_rows(socket: &SocketView) -> Vec<[String; 9]> {
    let place = socket.place.short_name();
    let row = |region: &str, modules: usize, what: &str, size: String, others: [String; 4]| {
        let [mode, usable, device, name] = others;
        let (region, what) = (region.to_owned(), what.to_owned());
        [place.clone(), region, modules.to_string(), what, size, mode, usable, device, name]
    };
    let plain = |what: Use, word: &str| {
        let parts = socket.modules.iter().flat_map(|module| &module.parts);
        let sizes: Vec<u64> = parts.filter(|part| part.what == what).map(|part| part.size).collect();
        let total = sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size));
        (total > 0).then(|| row("", sizes.len(), word, amount(total), Default::default()))
    };
    let mut rows: Vec<[String; 9]> = plain(Use::Memory, "memory").into_iter().collect();
    for region in &socket.regions {
        let (name, modules) = (region.name(), region.members.len());
        let mut free: u64 = 0;
        for piece in &region.pieces {
            match &piece.content {
                Content::Namespace(namespace) => {
                    let off = if namespace.enabled { "" } else { ", disabled" };
                    let mode = format!("{}{off}", namespace.mode.as_str());
                    let usable = size_text(namespace.usable);
                    let others = [mode, usable, namespace.paths().join(", "), namespace.name.clone()];
                    rows.push(row(&name, modules, &namespace.device(), namespace.size_text(), others));
                }
                Content::Free => free = free.saturating_add(piece.size),
                Content::Unknown => {
                    rows.push(row(&name, modules, "not shown", amount(piece.size), Default::default()));
                }
            }
        }
        if free > 0 {
            rows.push(row(&name, modules, "free", amount(free), Default::default()));
        }
    }
    let others =
        [(Use::Reserved, "reserved"), (Use::Unconfigured, "not configured"), (Use::Unknown, "in no region")];
    rows.extend(others.into_iter().filter_map(|(what, word)| plain(what, word)));
    rows
}

fn legend() -> String {
    let all = [
        ("--memory", "volatile memory"),
        ("--h0", "persistent, in the colour of its region"),
        ("--blank", "not configured, free, or in no region"),
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
