//! Parser of ipmctl's listings as text: tables, and lists with a headline for each object.
//!
//! ```text
//!  DimmID | Capacity            ---DimmID=0x0001---        ---DimmID=0x0001---
//! ====================             Capacity=252.4 GiB         ---Type=Health
//!  0x0001 | 252.4 GiB                                            CurrentValue=Healthy
//! ```
//!
//! Other lines, such as prompts of a shell, end a listing and are skipped.

use super::entry::{Entry, Located};
use super::error::ListingFault;
use super::listing_xml;

/// Returns the objects of all listings in the text.
pub(super) fn entries(text: &str) -> Result<Vec<Entry>, Located> {
    let lines: Vec<&str> = text.lines().collect();
    let mut reader = Reader::default();
    let mut index = 0;
    while let Some(line) = lines.get(index) {
        if line.trim_start().starts_with("<?xml") {
            reader.end();
            let (entries, taken) = listing_xml::entries(&lines[index..], index + 1)?;
            reader.entries.extend(entries);
            index += taken;
            continue;
        }
        let is_head = lines.get(index + 1).is_some_and(|next| is_rule(next));
        reader.line(line, index + 1, is_head)?;
        index += 1;
    }
    reader.end();
    Ok(reader.entries)
}

/// Returns true for the line under the head of a table.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() > 2 && line.bytes().all(|byte| byte == b'=')
}

fn cells(line: &str) -> Vec<String> {
    line.split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[derive(Default)]
struct Reader {
    entries: Vec<Entry>,
    /// The head of the table.
    head: Option<Vec<String>>,
    /// The value in the headline of the object of a list.
    headline: Option<(String, String)>,
    /// The object of a list.
    open: Option<Entry>,
}

impl Reader {
    fn end(&mut self) {
        self.entries.extend(self.open.take().filter(|entry| !entry.values.is_empty()));
        (self.head, self.headline) = (None, None);
    }

    fn line(&mut self, line: &str, number: usize, is_head: bool) -> Result<(), Located> {
        let text = line.trim();
        if is_head && line.contains('|') {
            self.end();
            self.head = Some(cells(line));
        } else if is_rule(line) || text.is_empty() {
            // The line under a head, or an empty one.
        } else if let Some(head) = self.head.as_ref().filter(|_| line.contains('|')) {
            let row = cells(line);
            if row.len() != head.len() {
                return Err((number, ListingFault::Row { found: row.len(), want: head.len() }));
            }
            let values = head.iter().cloned().zip(row).collect();
            self.entries.push(Entry { line: number, values });
        } else if let Some(part) = text.strip_prefix("---") {
            self.headline(part, number);
        } else {
            self.value(line, number);
        }
        Ok(())
    }

    fn headline(&mut self, text: &str, number: usize) {
        let whole = text.strip_suffix("---");
        let Some(value) = pair(whole.unwrap_or(text)) else { return self.end() };
        let before = self.headline.take().filter(|_| whole.is_none());
        self.end();
        let values = before.iter().cloned().chain([value.clone()]).collect();
        self.open = Some(Entry { line: number, values });
        self.headline = before.or(Some(value));
    }

    fn value(&mut self, line: &str, number: usize) {
        let is_indented = line.starts_with([' ', '\t']);
        let Some(value) = pair(line) else { return self.end() };
        if self.headline.is_some() && !is_indented {
            self.end();
        }
        self.head = None;
        self.open.get_or_insert_with(|| Entry { line: number, values: Vec::new() }).values.push(value);
    }
}

/// Returns the name and the value of `Name=Value`.
fn pair(text: &str) -> Option<(String, String)> {
    let (name, value) = text.trim().split_once('=')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name.then(|| (name.to_owned(), value.trim().to_owned()))
}
