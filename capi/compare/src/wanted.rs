//! Differences from Debian's libraries that are wanted, each with its reason.

/// The part of an answer that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedKind {
    /// The message alone.
    Message,
    /// The result. The rest of the sequence differs by it, so it is not compared.
    Result,
}

/// A wanted difference.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Start of the step, after its number.
    pub start: &'static str,
    /// A part of Debian's answer.
    pub theirs: &'static str,
    /// A part of our answer.
    pub ours: &'static str,
    /// The part that differs.
    pub kind: WantedKind,
    /// The reason.
    pub reason: &'static str,
}

/// The list.
pub(crate) const WANTED: &[Wanted] = &[
    Wanted {
        start: "map_file \"/dev/null\"",
        theirs: "errno 22",
        ours: "/dev/null is not device DAX",
        kind: WantedKind::Message,
        reason: "PMDK leaves the message of an earlier failure for a character device that is no device-DAX node",
    },
    Wanted {
        start: "map_file \"/dev/zero\"",
        theirs: "errno 22",
        ours: "/dev/zero is not device DAX",
        kind: WantedKind::Message,
        reason: "as for /dev/null",
    },
    Wanted {
        start: "map_file \"\"",
        theirs: "",
        ours: "errno 2 message mkstemp: No such file or directory",
        kind: WantedKind::Result,
        reason: "PMDK makes the temporary file of an empty path in the folder /",
    },
    Wanted {
        start: "flush ",
        theirs: " 0 signal 7 signal 7",
        ours: " 0 signal 7",
        kind: WantedKind::Result,
        reason: "PMDK flushes a line for no bytes, and so meets the end of a file that was cut",
    },
];
