//! Errors of the lines of a load.

use lode_layout::KEY_LEN_MAX;

/// Reason why a line can't be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// A backslash is followed by something that is no escape.
    #[error("the backslash at byte {at} begins none of \\t, \\n, \\\\, \\xHH")]
    Escape {
        /// Offset of the backslash, in bytes from the start of the line.
        at: usize,
    },
    /// The line is no JSON object of the expected form.
    #[error("no {{\"key\", \"value\"}} and no {{\"key_b64\", \"value_b64\"}}: {message} at byte {at}")]
    Json {
        /// The message of the JSON reader.
        message: String,
        /// Offset of the error, in bytes from the start of the line.
        at: usize,
    },
    /// A field that must be base64 is not.
    #[error("the field {field} is not base64")]
    Base64 {
        /// Name of the field.
        field: &'static str,
    },
    /// A field is present twice, plain and as base64, or missing.
    #[error("there must be one of the fields {field} and {field}_b64")]
    Fields {
        /// Name of the plain field.
        field: &'static str,
    },
    /// The key is too long.
    #[error("a key has at most {KEY_LEN_MAX} bytes, and this one has {len}")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The line is longer than any pair that the pool could hold.
    #[error("the line has more than {max} bytes, which the pool can't hold")]
    TooLong {
        /// Greatest length of a line, in bytes.
        max: u64,
    },
}
