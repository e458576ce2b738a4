//! The demo's tables.

use crate::demo::measure::Measurement;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use serde_json::{Value, json};

/// Notes on the tables.
pub(super) const LEGEND: &str = "\
Shuffled words, one thread, a transaction an operation. Times are medians of laps of 32 operations; drains, lines
and bytes are means, checkpoints included.
Stand-ins are ordinary memory (DRAM) with that durability forced: what the instructions cost, not what persistent
memory would. Lines are flushed or copied past the cache; bytes are stored or copied; cycles are of the
time-stamp counter.";

/// A table with a line below its header and one at its end.
const STYLE: TableStyle = TableStyle::new()
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// Returns the table of each operation at each durability.
pub(super) fn operations(measured: &[Measurement]) -> Table {
    let mut table = new_table(["durability", "operation", "ns", "cycles", "drains", "lines", "bytes"]);
    for medium in measured {
        let stand_in = if medium.stand_in { " (stand-in)" } else { "" };
        for (index, cost) in medium.costs.iter().enumerate() {
            let durability =
                if index == 0 { format!("{}{stand_in}", medium.durability) } else { String::new() };
            table.add_row([
                durability,
                cost.operation.name().to_owned(),
                grouped(cost.ns),
                cost.cycles.map_or_else(|| "-".to_owned(), grouped),
                format!("{:.3}", cost.drains),
                format!("{:.1}", cost.lines),
                format!("{:.0}", cost.bytes),
            ]);
        }
    }
    align(&mut table, 2);
    table
}

/// Returns the table of the media.
pub(super) fn media(measured: &[Measurement]) -> Table {
    let mut table = new_table(["durability", "medium", "keys", "bytes per key", "reopen, ms"]);
    for medium in measured {
        table.add_row([
            medium.durability.to_string(),
            if medium.stand_in {
                format!("{}, durability forced", medium.medium)
            } else {
                medium.medium.clone()
            },
            grouped(medium.keys as f64),
            format!("{:.1}", medium.bytes_per_key),
            format!("{:.2}", medium.reopen.as_secs_f64() * 1e3),
        ]);
    }
    align(&mut table, 2);
    table
}

pub(super) fn operations_json(measured: &[Measurement]) -> Vec<Value> {
    let of_medium = |medium: &Measurement| {
        let durability = medium.durability.to_string();
        let row = move |cost: &crate::demo::measure::Cost| {
            json!({
                "durability": durability,
                "operation": cost.operation.name(),
                "count": cost.count,
                "ns": cost.ns,
                "cycles": cost.cycles,
                "drains": cost.drains,
                "lines": cost.lines,
                "bytes": cost.bytes,
            })
        };
        medium.costs.iter().map(row).collect::<Vec<_>>()
    };
    measured.iter().flat_map(of_medium).collect()
}

pub(super) fn media_json(measured: &[Measurement]) -> Vec<Value> {
    let row = |medium: &Measurement| {
        json!({
            "durability": medium.durability.to_string(),
            "medium": medium.medium,
            "stand_in": medium.stand_in,
            "keys": medium.keys,
            "bytes_per_key": medium.bytes_per_key,
            "reopen_us": medium.reopen.as_micros() as u64,
        })
    };
    measured.iter().map(row).collect()
}

fn new_table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    table
}

/// Aligns the columns from `first` on to the right.
fn align(table: &mut Table, first: usize) {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Formats a number without a fraction, with spaces between groups of three digits.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
