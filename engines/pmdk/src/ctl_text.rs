//! The text of settings of PMDK's libraries: that of `PMEMLOG_CONF` and its relatives, and of the files that they name.
//!
//! ```text
//! sds.at_create=0;prefault.at_open=yes        a variable
//!
//! # a file: white space and comments have no meaning
//! sds.at_create = 0;
//! prefault.at_open = yes # another
//! ```
//!
//! Names and values are found here; which names there are is known to the library that reads the text.

use lode_layout::PmdkObjectHeaderKind;

/// Most bytes of a file that are read; a longer one is refused.
pub const CTL_FILE_LEN_MAX: u64 = 1 << 20;

/// A setting that a text gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtlQuery<'a> {
    /// Its name: parts with dots between them.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// A class of allocations, as a value of libpmemobj describes it: `UNIT,ALIGNMENT,UNITS,HEADER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtlClass {
    /// Bytes of a unit.
    pub unit_size: u64,
    /// Alignment in bytes; 0 for none.
    pub alignment: u64,
    /// Units of a run.
    pub unit_count: u32,
    /// The header of the objects.
    pub header: PmdkObjectHeaderKind,
}

/// A query that has no name, no value, or more than these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to parse query {}; write NAME=VALUE, with a semicolon between two of them", String::from_utf8_lossy(.query))]
pub struct CtlTextError {
    /// The query.
    pub query: Vec<u8>,
}

impl CtlQuery<'_> {
    /// Returns the value as a switch: true for `1`, `y` and what begins so, false for `0` and `n`; `None` for any other.
    pub fn switch(&self) -> Option<bool> {
        match self.value.first().map(u8::to_ascii_lowercase) {
            Some(b'y' | b'1') => Some(true),
            Some(b'n' | b'0') => Some(false),
            _ => None,
        }
    }

    /// Returns the number at the start of the value, as strtoll(3) with base 0 reads it; `None` if there is none, or it is too large.
    pub fn integer(&self) -> Option<i64> {
        leading_integer(self.value)
    }

    /// Returns the value as a class; `None` if it is none. Parts after the four are left out.
    pub fn class(&self) -> Option<CtlClass> {
        let mut words = ctl_words(self.value, b',');
        let mut number = || u64::try_from(leading_integer(words.next()?)?).ok();
        let (unit_size, alignment, unit_count) = (number()?, number()?, number()?);
        let header = match words.next()? {
            b"legacy" => PmdkObjectHeaderKind::Legacy,
            b"compact" => PmdkObjectHeaderKind::Compact,
            b"none" => PmdkObjectHeaderKind::None,
            _ => return None,
        };
        Some(CtlClass { unit_size, alignment, unit_count: u32::try_from(unit_count).ok()?, header })
    }
}

fn leading_integer(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii_start();
    let (is_negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (base, digits) = match rest {
        [b'0', b'x' | b'X', digits @ ..] if digits.first().is_some_and(u8::is_ascii_hexdigit) => (16, digits),
        [b'0', ..] => (8, rest),
        _ => (10, rest),
    };
    let len = digits.iter().take_while(|byte| (**byte as char).is_digit(base)).count();
    let value = i128::from_str_radix(std::str::from_utf8(&digits[..len]).ok()?, base).ok()?;
    i64::try_from(if is_negative { -value } else { value }).ok()
}

/// Returns the queries of a text in their order, up to the first one that can't be parsed, which is an error. Never panics, for any
/// text.
pub fn ctl_queries(text: &[u8]) -> impl Iterator<Item = Result<CtlQuery<'_>, CtlTextError>> {
    let mut is_at_end = false;
    let queries = text.split(|byte| *byte == b';').filter(|query| !query.is_empty());
    queries.map_while(move |query| {
        if is_at_end {
            return None;
        }
        let mut words = ctl_words(query, b'=');
        match (words.next(), words.next(), words.next()) {
            (Some(name), Some(value), None) => Some(Ok(CtlQuery { name, value })),
            _ => {
                is_at_end = true;
                Some(Err(CtlTextError { query: query.to_vec() }))
            }
        }
    })
}

/// Returns the parts of a text between separators, empty ones left out, as strtok(3) does. Those of a name are between dots.
pub fn ctl_words(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    text.split(move |byte| *byte == separator).filter(|word| !word.is_empty())
}

/// Returns the text of a file without its comments and white space.
pub fn ctl_text_of_file(file: &[u8]) -> Vec<u8> {
    let lines = file.split(|byte| *byte == b'\n');
    let content = lines.flat_map(|line| line.split(|byte| *byte == b'#').next().unwrap_or_default());
    content.copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    fn queries(text: &str) -> Vec<Result<(&str, &str), String>> {
        let text_of = |bytes| str::from_utf8(bytes).unwrap();
        let found = ctl_queries(text.as_bytes());
        found
            .map(|query| match query {
                Ok(query) => Ok((text_of(query.name), text_of(query.value))),
                Err(error) => Err(String::from_utf8(error.query).unwrap()),
            })
            .collect()
    }

    #[test]
    fn queries_are_parsed_up_to_a_fault() {
        assert_eq!(queries("a.b=1;;c= x;"), [Ok(("a.b", "1")), Ok(("c", " x"))]);
        assert_eq!(queries("a==1"), [Ok(("a", "1"))]);
        assert_eq!(queries(""), []);
        for fault in ["a", "=1", "a=", "a=b=c"] {
            assert_eq!(queries(&format!("x=1;{fault};y=2")), [Ok(("x", "1")), Err(fault.into())]);
        }
    }

    #[test]
    fn values_are_switches_by_their_first_letter() {
        for (value, is_set) in [
            ("1", Some(true)),
            ("Yes", Some(true)),
            ("0x", Some(false)),
            ("no", Some(false)),
            ("x", None),
            (" 1", None),
        ] {
            assert_eq!(CtlQuery { name: b"a", value: value.as_bytes() }.switch(), is_set, "{value}");
        }
    }

    fn value(text: &str) -> CtlQuery<'_> {
        CtlQuery { name: b"a", value: text.as_bytes() }
    }

    #[test]
    fn integers_are_read_as_strtoll_does() {
        for (text, number) in [
            ("5", Some(5)),
            ("-5", Some(-5)),
            ("1K", Some(1)),
            (" 0x10 ", Some(16)),
            ("010", Some(8)),
            ("0", Some(0)),
            ("0x", Some(0)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("x", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(value(text).integer(), number, "{text}");
        }
    }

    #[test]
    fn classes_have_four_parts() {
        let compact = value("500,0,0x10,compact,x").class().unwrap();
        let wanted =
            CtlClass { unit_size: 500, alignment: 0, unit_count: 16, header: PmdkObjectHeaderKind::Compact };
        assert_eq!(compact, wanted);
        let header = |text: &str| value(text).class().map(|class| class.header);
        assert_eq!(header("500,0,1000,none"), Some(PmdkObjectHeaderKind::None));
        assert_eq!(header("500,0,1000,legacy"), Some(PmdkObjectHeaderKind::Legacy));
        for text in ["500,0,1000", "500,0,1000,foo", "x,0,1,none", "-1,0,1,none", "1,0,4294967296,none"] {
            assert_eq!(value(text).class(), None, "{text}");
        }
    }

    #[test]
    fn files_have_comments_and_white_space() {
        assert_eq!(ctl_text_of_file(b"# a=1;\nb . c\n\t= yes; # x\n;d=1;"), b"b.c=yes;;d=1;");
    }
}
