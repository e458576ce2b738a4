//! Filters of cxl: names and numbers, with spaces or commas in between.

use super::inventory::{CxlMemdev, CxlPortLevel, CxlPortView};

/// Returns the words of a filter. Commas separate only if there is no space.
fn words(filter: &str) -> impl Iterator<Item = &str> {
    let separator = if !filter.contains(' ') && filter.contains(',') { ',' } else { ' ' };
    filter.split(separator).filter(|word| !word.is_empty())
}

/// Returns true if one of the words of a filter matches, or is `all`. No filter matches everything.
fn any(filter: Option<&str>, matches: impl Fn(&str) -> bool) -> bool {
    filter.is_none_or(|filter| words(filter).any(|word| word == "all" || matches(word)))
}

/// Returns the number at the start of a word, which cxl reads by `sscanf`.
fn number(word: &str) -> Option<(u32, &str)> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = word.split_at(digits);
    Some((number.parse().ok()?, rest))
}

/// Returns true if a word is the number of an object, or its name of `prefix` and number.
fn is_numbered(word: &str, prefix: &str, of: u32) -> bool {
    let name = word.strip_prefix(prefix).unwrap_or(word);
    number(name).is_some_and(|(number, _)| number == of)
}

/// Returns true if a filter has a word with this part.
pub(super) fn has_part(filter: Option<&str>, part: &str) -> bool {
    filter.is_some_and(|filter| words(filter).any(|word| word.contains(part)))
}

pub(super) fn region(filter: Option<&str>, number: u32) -> bool {
    any(filter, |word| is_numbered(word, "region", number))
}

/// Returns true if a word is the name of a decoder.
pub(super) fn decoder(word: &str, port: u32, index: u32) -> bool {
    let pair = word.strip_prefix("decoder").unwrap_or(word);
    let found = number(pair).and_then(|(port, rest)| Some((port, number(rest.strip_prefix('.')?)?.0)));
    found == Some((port, index))
}

pub(super) fn decoder_of(filter: Option<&str>, port: &CxlPortView, index: u32) -> bool {
    any(filter, |word| word == port.level.as_str() || decoder(word, port.number, index))
}

pub(super) fn port(filter: Option<&str>, port: &CxlPortView) -> bool {
    any(filter, |word| {
        word == port.level.as_str()
            || is_numbered(word, "port", port.number)
            || word == port.name()
            || word == port.host
    })
}

pub(super) fn endpoint(filter: Option<&str>, port: &CxlPortView) -> bool {
    any(filter, |word| is_numbered(word, "endpoint", port.number) || word == port.host)
}

pub(super) fn bus(filter: Option<&str>, port: &CxlPortView) -> bool {
    any(filter, |word| {
        is_numbered(word, "root", port.number) || word == port.provider() || word == port.name()
    })
}

/// Returns true if a device has one of the names, and one of the serial numbers.
pub(super) fn memdev(names: Option<&str>, serials: Option<&str>, memdev: &CxlMemdev) -> bool {
    let has_serial = |filter: &str| {
        words(filter).filter_map(super::number_alone).any(|serial| memdev.serial == Some(serial))
    };
    any(names, |word| is_numbered(word, "mem", memdev.number) || word == memdev.host)
        && serials.is_none_or(has_serial)
}

impl CxlPortLevel {
    /// Returns cxl's word for ports of this level.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            CxlPortLevel::Root => "root",
            CxlPortLevel::Switch => "switch",
            CxlPortLevel::Endpoint => "endpoint",
        }
    }
}
