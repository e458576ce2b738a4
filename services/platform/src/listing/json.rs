//! JSON in the format of json-c in ndctl: keys in insertion order, sizes and addresses for users or for programs.

use std::fmt::Write;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Text(String),
    Number(i64),
    /// A boolean.
    Flag(bool),
    /// A number with a fraction, as text.
    Fraction(String),
    /// Bytes. In the format for users in GiB and GB.
    Size(u64),
    /// An address or an id. In the format for users hexadecimal.
    Hex(u64),
    Array(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
    /// An object with names of other objects in its keys.
    Map(Vec<(String, Json)>),
}

/// Fields of an object, in insertion order.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(&'static str, Json)>);

impl Fields {
    pub(crate) fn add(&mut self, name: &'static str, value: Json) {
        self.0.push((name, value));
    }

    /// Adds a field if it has a value.
    pub(crate) fn add_some(&mut self, name: &'static str, value: Option<Json>) {
        self.0.extend(value.map(|value| (name, value)));
    }

    /// Adds an array if it has elements.
    pub(crate) fn add_array(&mut self, name: &'static str, values: Vec<Json>) {
        if !values.is_empty() {
            self.add(name, Json::Array(values));
        }
    }

    pub(crate) fn extend(&mut self, others: Fields) {
        self.0.extend(others.0);
    }
}

impl From<Fields> for Vec<(&'static str, Json)> {
    fn from(fields: Fields) -> Self {
        fields.0
    }
}

impl Json {
    pub(crate) fn text(value: impl ToString) -> Json {
        Json::Text(value.to_string())
    }

    /// Formats the value for users or for programs.
    pub(crate) fn print(&self, human: bool) -> String {
        let mut text = String::new();
        self.write(&mut text, human, 0);
        text
    }

    /// Formats the value for programs, in one line.
    pub(crate) fn print_line(&self) -> String {
        let mut text = String::new();
        match self {
            Json::Array(values) => {
                let parts: Vec<String> = values.iter().map(Json::print_line).collect();
                text += &format!("[{}]", parts.join(","));
            }
            Json::Object(fields) => {
                line_of(&mut text, fields.iter().map(|(name, value)| (*name, value)));
            }
            Json::Map(fields) => {
                line_of(&mut text, fields.iter().map(|(name, value)| (name.as_str(), value)));
            }
            scalar => scalar.write(&mut text, false, 0),
        }
        text
    }

    fn write(&self, text: &mut String, human: bool, depth: usize) {
        match self {
            Json::Null => *text += "null",
            Json::Text(value) => quote(text, value),
            Json::Number(value) => *text += &value.to_string(),
            Json::Flag(value) => *text += &value.to_string(),
            Json::Fraction(value) => *text += value,
            Json::Size(bytes) if human => *text += &size(*bytes),
            // C's `%#x` prints zero without a prefix.
            Json::Hex(0) if human => *text += "\"0\"",
            Json::Hex(value) if human => *text += &format!("\"{value:#x}\""),
            // json-c stores signed 64-bit numbers.
            Json::Size(value) | Json::Hex(value) => *text += &(*value as i64).to_string(),
            Json::Array(values) => {
                let write = |text: &mut String, value: &Json| value.write(text, human, depth + 1);
                nest(text, depth, ['[', ']'], values, write);
            }
            Json::Object(fields) => {
                let write = |text: &mut String, (name, value): &(&str, Json)| {
                    value.write_field(text, name, human, depth + 1);
                };
                nest(text, depth, ['{', '}'], fields, write);
            }
            Json::Map(fields) => {
                let write = |text: &mut String, (name, value): &(String, Json)| {
                    value.write_field(text, name, human, depth + 1);
                };
                nest(text, depth, ['{', '}'], fields, write);
            }
        }
    }
}

impl Json {
    fn write_field(&self, text: &mut String, name: &str, human: bool, depth: usize) {
        quote(text, name);
        *text += ":";
        self.write(text, human, depth);
    }
}

/// Formats an object in one line.
fn line_of<'a>(text: &mut String, fields: impl Iterator<Item = (&'a str, &'a Json)>) {
    text.push('{');
    for (index, (name, value)) in fields.enumerate() {
        *text += if index == 0 { "" } else { "," };
        quote(text, name);
        *text += ":";
        *text += &value.print_line();
    }
    text.push('}');
}

fn nest<T>(text: &mut String, depth: usize, marks: [char; 2], parts: &[T], write: impl Fn(&mut String, &T)) {
    text.push(marks[0]);
    if parts.is_empty() {
        // json-c ends the line of an empty array.
        if marks[0] == '[' {
            *text += "\n";
            *text += &"  ".repeat(depth);
        }
        text.push(marks[1]);
        return;
    }
    for (index, part) in parts.iter().enumerate() {
        *text += if index == 0 { "\n" } else { ",\n" };
        *text += &"  ".repeat(depth + 1);
        write(text, part);
    }
    *text += "\n";
    *text += &"  ".repeat(depth);
    text.push(marks[1]);
}

fn quote(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => *text += "\\\"",
            '\\' => *text += "\\\\",
            '/' => *text += "\\/",
            '\n' => *text += "\\n",
            control if control < ' ' => {
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

/// Formats bytes for users: plain below 5000 KiB, with two decimal places in MiB and MB below 2 GiB, in GiB and GB below
/// 2 TiB, else in TiB and TB.
fn size(bytes: u64) -> String {
    let (unit, binary, word, decimal_word) = match bytes {
        0..5_120_000 => return bytes.to_string(),
        5_120_000..0x8000_0000 => (1_000_000_u128, 1_u128 << 20, "MiB", "MB"),
        0x8000_0000..0x200_0000_0000 => (1_000_000_000, 1 << 30, "GiB", "GB"),
        _ => (1_000_000_000_000, 1 << 40, "TiB", "TB"),
    };
    let bytes = u128::from(bytes);
    let (of_binary, of_decimal) = ((bytes * 200 / binary).div_ceil(2), (bytes / (unit / 200)).div_ceil(2));
    let two = |hundredths: u128| format!("{}.{:02}", hundredths / 100, hundredths % 100);
    format!("\"{} {word} ({} {decimal_word})\"", two(of_binary), two(of_decimal))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn human_readable_sizes() {
        assert_eq!(size(504 << 30), "\"504.00 GiB (541.17 GB)\"");
        assert_eq!(size(252 << 30), "\"252.00 GiB (270.58 GB)\"");
        assert_eq!(size(16 << 20), "\"16.00 MiB (16.78 MB)\"");
        assert_eq!(size(5_119_999), "5119999");
        assert_eq!(size(0x8000_0000), "\"2.00 GiB (2.15 GB)\"");
        assert_eq!(size((2 << 40) - 1), "\"2048.00 GiB (2199.02 GB)\"");
        assert_eq!(size(6 << 40), "\"6.00 TiB (6.60 TB)\"");
    }

    #[test]
    fn output_matches_json_c() {
        let value = Json::Object(vec![
            ("name", Json::Text("a\"/b".to_owned())),
            ("id", Json::Hex(u64::MAX)),
            ("list", Json::Array(vec![Json::Number(-1), Json::Number(2)])),
        ]);
        let text = "{\n  \"name\":\"a\\\"\\/b\",\n  \"id\":-1,\n  \"list\":[\n    -1,\n    2\n  ]\n}";
        assert_eq!(value.print(false), text);
        assert_eq!(value.print_line(), "{\"name\":\"a\\\"\\/b\",\"id\":-1,\"list\":[-1,2]}");
        assert!(value.print(true).contains("\"id\":\"0xffffffffffffffff\""));
        assert_eq!(Json::Hex(0).print(true), "\"0\"");
    }
}
