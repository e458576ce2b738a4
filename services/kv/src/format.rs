//! Pairs of key and value as lines of text.

use crate::escape::{escape, unescape};
use crate::line_error::LineError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lode_layout::KEY_LEN_MAX;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Syntax of the line for a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Key, TAB, value, with escapes. Without a TAB the value is empty.
    Tsv,
    /// The line itself is the key. Values are empty.
    Keys,
    /// A JSON object {"key", "value"}, or with "key_b64" and "value_b64" for bytes that are not UTF-8.
    Jsonl,
}

/// A key and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct JsonPair<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    key_b64: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    value: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    value_b64: Option<Cow<'a, str>>,
}

impl Format {
    /// Parses a line, which is given without its newline.
    ///
    /// # Errors
    /// [`LineError`].
    pub fn parse(self, line: &[u8]) -> Result<Pair, LineError> {
        let pair = match self {
            Format::Keys => Pair { key: line.to_vec(), value: Vec::new() },
            Format::Tsv => {
                let tab = line.iter().position(|byte| *byte == b'\t');
                let (key, value) = tab.map_or((line, &[][..]), |tab| (&line[..tab], &line[tab + 1..]));
                let past_key = |error| match error {
                    LineError::Escape { at } => LineError::Escape { at: at + key.len() + 1 },
                    other => other,
                };
                Pair { key: unescape(key)?, value: unescape(value).map_err(past_key)? }
            }
            Format::Jsonl => parse_json(line)?,
        };
        match pair.key.len() {
            len if len > KEY_LEN_MAX => Err(LineError::KeyTooLong { len }),
            _ => Ok(pair),
        }
    }

    /// Returns the line for a pair, with its newline.
    pub fn print(self, key: &[u8], value: &[u8]) -> String {
        match self {
            Format::Tsv => format!("{}\t{}\n", escape(key), escape(value)),
            Format::Keys => format!("{}\n", escape(key)),
            Format::Jsonl => print_json(key, value),
        }
    }

    /// Returns the number that stands for the format in the progress of a load.
    pub(crate) fn code(self) -> u32 {
        match self {
            Format::Tsv => 1,
            Format::Keys => 2,
            Format::Jsonl => 3,
        }
    }
}

fn parse_json(line: &[u8]) -> Result<Pair, LineError> {
    let parsed: JsonPair<'_> = serde_json::from_slice(line).map_err(|error| {
        let text = error.to_string();
        let message = text.split(" at line ").next().unwrap_or(&text).to_owned();
        LineError::Json { message, at: error.column() }
    })?;
    let key = field("key", parsed.key, "key_b64", parsed.key_b64)?;
    let value = field("value", parsed.value, "value_b64", parsed.value_b64)?;
    Ok(Pair { key, value })
}

fn field(
    name: &'static str,
    plain: Option<Cow<'_, str>>,
    name_b64: &'static str,
    encoded: Option<Cow<'_, str>>,
) -> Result<Vec<u8>, LineError> {
    match (plain, encoded) {
        (Some(text), None) => Ok(text.into_owned().into_bytes()),
        (None, Some(text)) => {
            STANDARD.decode(text.as_bytes()).map_err(|_| LineError::Base64 { field: name_b64 })
        }
        _ => Err(LineError::Fields { field: name }),
    }
}

fn print_json(key: &[u8], value: &[u8]) -> String {
    let plain = |bytes| std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
    let encoded = |bytes: &[u8]| std::str::from_utf8(bytes).is_err().then(|| STANDARD.encode(bytes).into());
    let pair =
        JsonPair { key: plain(key), key_b64: encoded(key), value: plain(value), value_b64: encoded(value) };
    let mut line = serde_json::to_string(&pair).expect("strings can be written as JSON");
    line.push('\n');
    line
}

#[cfg(test)]
mod test {
    use super::*;

    fn pair(key: &[u8], value: &[u8]) -> Pair {
        Pair { key: key.to_vec(), value: value.to_vec() }
    }

    #[test]
    fn tsv_splits_at_the_first_tab() {
        let parse = |line: &str| Format::Tsv.parse(line.as_bytes());
        assert_eq!(parse("a\tb\tc"), Ok(pair(b"a", b"b\tc")));
        assert_eq!(parse("alone"), Ok(pair(b"alone", b"")));
        assert_eq!(parse(""), Ok(pair(b"", b"")));
        assert_eq!(parse("\\t\\n\\\\\tv\\x00"), Ok(pair(b"\t\n\\", b"v\0")));
        assert_eq!(parse("ab\tc\\z"), Err(LineError::Escape { at: 4 }));
    }

    #[test]
    fn keys_format_takes_lines_verbatim() {
        assert_eq!(Format::Keys.parse(b"a\tb\\n\xFF"), Ok(pair(b"a\tb\\n\xFF", b"")));
    }

    #[test]
    fn json_fields_are_plain_or_base64() {
        let parse = |line: &str| Format::Jsonl.parse(line.as_bytes());
        assert_eq!(parse(r#"{"key":"k","value":"v\n"}"#), Ok(pair(b"k", b"v\n")));
        assert_eq!(parse(r#"{"key_b64":"/w==","value":""}"#), Ok(pair(b"\xFF", b"")));
        assert_eq!(parse(r#"{"key_b64":"?","value":""}"#), Err(LineError::Base64 { field: "key_b64" }));
        assert_eq!(parse(r#"{"key":"k"}"#), Err(LineError::Fields { field: "value" }));
        let both = parse(r#"{"key":"k","key_b64":"","value":"v"}"#);
        assert_eq!(both, Err(LineError::Fields { field: "key" }));
        for line in ["", "[]", r#"{"key":1,"value":""}"#, r#"{"kee":"k","value":"v"}"#, "{\"key\":\"\u{1}\"}"]
        {
            assert!(matches!(parse(line), Err(LineError::Json { .. })), "{line}");
        }
    }

    #[test]
    fn printed_pairs_round_trip() {
        for format in [Format::Tsv, Format::Jsonl] {
            for bytes in [&b""[..], b"plain", b"\t\n\\", b"\xFF\0", "ü".as_bytes()] {
                let line = format.print(bytes, bytes);
                let stripped = line.strip_suffix('\n').unwrap();
                assert_eq!(format.parse(stripped.as_bytes()), Ok(pair(bytes, bytes)), "{format:?} {line}");
            }
        }
    }

    #[test]
    fn too_long_keys_are_refused() {
        let line = vec![b'k'; KEY_LEN_MAX + 1];
        let error = LineError::KeyTooLong { len: KEY_LEN_MAX + 1 };
        assert_eq!(Format::Keys.parse(&line), Err(error));
        assert_eq!(Format::Keys.parse(&line[1..]), Ok(pair(&line[1..], b"")));
    }
}
