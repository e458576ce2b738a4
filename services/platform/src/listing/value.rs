//! A value of a record: the text that ipmctl prints, and what JSON has in its place.

use super::json::Json;
use crate::machine::Handle;
use std::borrow::Cow;

/// A value of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    text: Cow<'static, str>,
    json: Json,
}

impl Value {
    /// Returns a value that is not known, for which ipmctl prints `word`. JSON has null.
    pub(crate) const fn absent(word: &'static str) -> Value {
        Value { text: Cow::Borrowed(word), json: Json::Null }
    }

    /// Returns a number, which ipmctl prints as `text`, with a unit or in another base.
    pub(crate) fn number(number: u64, text: impl Into<String>) -> Value {
        Value { text: Cow::Owned(text.into()), json: Json::Size(number) }
    }

    /// Returns a number that may be negative, which ipmctl prints as `text`.
    pub(crate) fn signed(number: i64, text: impl Into<String>) -> Value {
        Value { text: Cow::Owned(text.into()), json: Json::Number(number) }
    }

    /// Returns a list, which ipmctl prints with commas between. JSON has an array.
    pub(crate) fn list(parts: impl IntoIterator<Item = String>) -> Value {
        let parts: Vec<String> = parts.into_iter().collect();
        Value {
            text: Cow::Owned(parts.join(", ")),
            json: Json::Array(parts.into_iter().map(Json::Text).collect()),
        }
    }

    /// Returns ipmctl's text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn json(&self) -> Json {
        self.json.clone()
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value { json: Json::Text(text.clone()), text: Cow::Owned(text) }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::from(text.to_owned())
    }
}

impl From<Handle> for Value {
    fn from(handle: Handle) -> Value {
        Value::from(handle.to_string())
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Value {
        Value::number(number.into(), number.to_string())
    }
}
