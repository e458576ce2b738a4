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

    #[test]
    fn files_have_comments_and_white_space() {
        assert_eq!(ctl_text_of_file(b"# a=1;\nb . c\n\t= yes; # x\n;d=1;"), b"b.c=yes;;d=1;");
    }
}
