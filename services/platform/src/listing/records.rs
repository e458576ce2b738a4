//! Records of named values, the three formats in which ipmctl prints them, and JSON.

use super::json::Json;
use super::value::Value;

/// Output format of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for users.
    #[default]
    Text,
    /// ipmctl's XML for programs.
    Xml,
    /// JSON for programs, which ipmctl does not have: an array of objects, in which capacities are numbers of bytes.
    Json,
}

/// An object with named values, in the order in which they are printed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    values: Vec<(&'static str, Value)>,
    /// Parts of the object, such as the sensors of a module.
    parts: Vec<Record>,
}

/// Objects of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    /// XML tag around all records.
    pub(crate) list_tag: &'static str,
    /// XML tag of each record; empty for a single object, whose values are directly in the list tag.
    pub(crate) tag: &'static str,
    /// XML tag of each part.
    pub(crate) part_tag: &'static str,
    /// Name of the value in each record's headline; `None` for a single object without one.
    pub(crate) head: Option<&'static str>,
    /// The objects.
    pub(crate) records: Vec<Record>,
}

/// A table column: the name of its value and its maximum width in characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column(pub(crate) &'static str, pub(crate) usize);

impl Record {
    /// Returns a record without values.
    pub(crate) fn new() -> Record {
        Record::default()
    }

    /// Adds a value.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Record {
        self.values.push((name, value.into()));
        self
    }

    /// Sets the parts.
    pub(crate) fn with_parts(mut self, parts: Vec<Record>) -> Record {
        self.parts = parts;
        self
    }

    /// Replaces the values by those of `other`, and by N/A where `other` has none.
    pub(crate) fn limited_to(mut self, other: &Record) -> Record {
        for (name, value) in &mut self.values {
            *value = other.value(name).cloned().unwrap_or(Value::absent("N/A"));
        }
        self
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns ipmctl's text of a value.
    fn text(&self, name: &str) -> Option<&str> {
        self.value(name).map(Value::text)
    }

    fn json(&self, part_tag: &'static str) -> Json {
        let mut fields: Vec<(&'static str, Json)> =
            self.values.iter().map(|(name, value)| (*name, value.json())).collect();
        if !part_tag.is_empty() {
            let parts = self.parts.iter().map(|part| part.json(""));
            fields.push((part_tag, Json::Array(parts.collect())));
        }
        Json::Object(fields)
    }

    /// Returns true if the record or one of its parts has a value of this name, ignoring case.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.values.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
            || self.parts.iter().any(|part| part.knows(name))
    }

    fn keep(&mut self, names: &[&str], head: &str) {
        self.values
            .retain(|(name, _)| *name == head || names.iter().any(|asked| asked.eq_ignore_ascii_case(name)));
        self.parts.iter_mut().for_each(|part| part.keep(names, head));
    }
}

impl Records {
    /// Removes the values that are not in `names`, except the headlines.
    pub(crate) fn keep(&mut self, names: &[&str], head: &str) {
        self.records.iter_mut().for_each(|record| record.keep(names, head));
    }

    /// Formats a table: one row for each record, or for each of its parts.
    pub(crate) fn table(&self, columns: &[Column]) -> String {
        let mut rows: Vec<Vec<&str>> = Vec::new();
        for record in &self.records {
            let part_rows = record.parts.iter().map(Some).collect::<Vec<_>>();
            for part in if part_rows.is_empty() { vec![None] } else { part_rows } {
                let value = |name| record.text(name).or_else(|| part.and_then(|part| part.text(name)));
                rows.push(columns.iter().map(|Column(name, _)| value(name).unwrap_or("N/A")).collect());
            }
        }
        let widths: Vec<usize> = (0..columns.len())
            .map(|index| {
                let Column(name, most) = columns[index];
                let cells = rows.iter().map(|row| row[index].chars().count());
                let longest = cells.chain([name.chars().count()]).max().unwrap_or(0);
                (longest + 1).min(most)
            })
            .collect();
        let line = |cells: &[&str]| {
            let cells = cells.iter().zip(&widths).map(|(cell, width)| format!(" {cell:width$}"));
            cells.collect::<Vec<_>>().join("|") + "\n"
        };
        let head = line(&columns.iter().map(|Column(name, _)| *name).collect::<Vec<_>>());
        let rule = "=".repeat(head.chars().count() - 1) + "\n";
        rows.iter().fold(head + &rule, |text, row| text + &line(row))
    }

    /// Formats a list: a headline for each record, and a line for each value.
    pub(crate) fn list(&self) -> String {
        let mut text = String::new();
        for record in &self.records {
            if let Some(head) = self.head {
                text += &format!("---{head}={}---\n", record.text(head).unwrap_or("N/A"));
            }
            let indent = if self.head.is_some() { "   " } else { "" };
            for (name, value) in &record.values {
                if Some(*name) != self.head {
                    text += &format!("{indent}{name}={}\n", value.text());
                }
            }
            for part in &record.parts {
                let mut values = part.values.iter();
                if let Some((name, value)) = values.next() {
                    text += &format!("   ---{name}={}\n", value.text());
                }
                values.for_each(|(name, value)| text += &format!("      {name}={}\n", value.text()));
            }
        }
        text
    }

    /// Formats a JSON array of all records. Parts are an array named after their tag.
    pub(crate) fn json(&self) -> String {
        let records = self.records.iter().map(|record| record.json(self.part_tag));
        Json::Array(records.collect()).print(false) + "\n"
    }

    /// Formats XML.
    pub(crate) fn xml(&self) -> String {
        let mut text = format!("<?xml version=\"1.0\"?>\n <{}>\n", self.list_tag);
        for record in &self.records {
            match self.tag {
                "" => values(&mut text, 2, record, self.part_tag),
                tag => element(&mut text, 2, tag, record, self.part_tag),
            }
        }
        text + &format!(" </{}>\n", self.list_tag)
    }
}

fn element(text: &mut String, depth: usize, tag: &str, record: &Record, part_tag: &str) {
    let indent = " ".repeat(depth);
    *text += &format!("{indent}<{tag}>\n");
    values(text, depth + 1, record, part_tag);
    *text += &format!("{indent}</{tag}>\n");
}

fn values(text: &mut String, depth: usize, record: &Record, part_tag: &str) {
    let indent = " ".repeat(depth);
    for (name, value) in &record.values {
        // A name in XML has no blank.
        let name = name.replace(' ', "");
        *text += &format!("{indent}<{name}>{}</{name}>\n", escaped(value.text()));
    }
    for part in &record.parts {
        element(text, depth, part_tag, part, "");
    }
}

fn escaped(value: &str) -> String {
    value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod test {
    use super::*;

    fn records() -> Records {
        let record = |id: &str, note: &str| Record::new().with("DimmID", id).with("Note", note);
        Records {
            list_tag: "DimmList",
            tag: "Dimm",
            part_tag: "",
            head: Some("DimmID"),
            records: vec![record("0x0001", "a<b"), record("0x0101", "long one")],
        }
    }

    #[test]
    fn table_list_and_xml() {
        let records = records();
        let table = records.table(&[Column("DimmID", 22), Column("Note", 7), Column("Gone", 9)]);
        let expected = " DimmID | Note   | Gone \n========================\n";
        assert_eq!(table.lines().take(2).map(|line| format!("{line}\n")).collect::<String>(), expected);
        assert!(table.contains(" 0x0001 | a<b    | N/A  \n"), "{table}");
        assert_eq!(
            records.list(),
            "---DimmID=0x0001---\n   Note=a<b\n---DimmID=0x0101---\n   Note=long one\n"
        );
        assert!(
            records
                .xml()
                .starts_with("<?xml version=\"1.0\"?>\n <DimmList>\n  <Dimm>\n   <DimmID>0x0001</DimmID>\n")
        );
        assert!(records.xml().contains("<Note>a&lt;b</Note>"));
    }

    #[test]
    fn json_has_numbers_lists_and_null() {
        let sensor = Record::new().with("Type", "UpTime").with("CurrentValue", Value::number(9, "9s"));
        let record = Record::new()
            .with("DimmID", Value::list(["0x0001", "0x0101"].map(str::to_owned)))
            .with("Note", Value::absent("N/A"))
            .with_parts(vec![sensor]);
        let records = Records { part_tag: "Sensor", records: vec![record], ..records() };
        assert!(records.list().contains("---DimmID=0x0001, 0x0101---\n   Note=N/A\n"), "{}", records.list());
        let json: String = records.json().split_whitespace().collect();
        let expected =
            r#"[{"DimmID":["0x0001","0x0101"],"Note":null,"Sensor":[{"Type":"UpTime","CurrentValue":9}]}]"#;
        assert_eq!(json, expected);
    }
}
