//! Records of named values, and the three forms in which ipmctl prints them.

/// In which form records are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Xml,
}

/// A thing with named values, in the order in which they are printed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    values: Vec<(&'static str, String)>,
    /// What belongs to the thing, as the sensors of a module.
    parts: Vec<Record>,
}

/// Things of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    /// The tag around all of them in XML.
    pub(crate) list_tag: &'static str,
    /// The tag of each in XML; empty for one thing whose values stand in the tag around it.
    pub(crate) tag: &'static str,
    /// The tag of each part in XML.
    pub(crate) part_tag: &'static str,
    /// The value that heads each in a list; none for one thing that needs no head.
    pub(crate) head: Option<&'static str>,
    /// The things.
    pub(crate) records: Vec<Record>,
}

/// A column of a table: the value that it shows, and the most characters that it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column(pub(crate) &'static str, pub(crate) usize);

impl Record {
    /// A record with no values.
    pub(crate) fn new() -> Record {
        Record::default()
    }

    /// The same with one more value.
    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Record {
        self.values.push((name, value.to_string()));
        self
    }

    /// The same with these parts.
    pub(crate) fn with_parts(mut self, parts: Vec<Record>) -> Record {
        self.parts = parts;
        self
    }

    /// The same with N/A for each value that the other one has not, and the other's for those that it has.
    pub(crate) fn limited_to(mut self, other: &Record) -> Record {
        for (name, value) in &mut self.values {
            *value = other.value(name).unwrap_or("N/A").to_owned();
        }
        self
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Whether it, or a part of it, has a value of this name, in capitals or not.
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
    /// Leaves out the values that nobody asked for, the heads apart.
    pub(crate) fn keep(&mut self, names: &[&str], head: &str) {
        self.records.iter_mut().for_each(|record| record.keep(names, head));
    }

    /// A table: a row for each record, or for each of its parts.
    pub(crate) fn table(&self, columns: &[Column]) -> String {
        let mut rows: Vec<Vec<&str>> = Vec::new();
        for record in &self.records {
            let part_rows = record.parts.iter().map(Some).collect::<Vec<_>>();
            for part in if part_rows.is_empty() { vec![None] } else { part_rows } {
                let value = |name| record.value(name).or_else(|| part.and_then(|part| part.value(name)));
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

    /// A list: a head for each record, and a line for each value.
    pub(crate) fn list(&self) -> String {
        let mut text = String::new();
        for record in &self.records {
            if let Some(head) = self.head {
                text += &format!("---{head}={}---\n", record.value(head).unwrap_or("N/A"));
            }
            let indent = if self.head.is_some() { "   " } else { "" };
            for (name, value) in &record.values {
                if Some(*name) != self.head {
                    text += &format!("{indent}{name}={value}\n");
                }
            }
            for part in &record.parts {
                let mut values = part.values.iter();
                if let Some((name, value)) = values.next() {
                    text += &format!("   ---{name}={value}\n");
                }
                values.for_each(|(name, value)| text += &format!("      {name}={value}\n"));
            }
        }
        text
    }

    /// XML.
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
        *text += &format!("{indent}<{name}>{}</{name}>\n", escaped(value));
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
    fn three_forms() {
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
}
