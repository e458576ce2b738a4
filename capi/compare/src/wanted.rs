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
    /// Returns true for this difference: of the call with its arguments, Debian's answer to it, and ours.
    pub is: fn(&str, &str) -> bool,
    /// The part that differs.
    pub kind: WantedKind,
    /// The reason.
    pub reason: &'static str,
}

/// The list.
pub(crate) const WANTED: &[Wanted] = &[
    Wanted {
        is: |theirs, ours| theirs.starts_with("map_file \"/dev/") && ours.contains(" is not device DAX"),
        kind: WantedKind::Message,
        reason: "PMDK leaves the message of an earlier failure for a character device that is no device-DAX node",
    },
    Wanted {
        is: |theirs, ours| theirs.starts_with("map_file \"\"") && ours.contains("errno 2 message mkstemp: "),
        kind: WantedKind::Result,
        reason: "PMDK makes the temporary file of an empty path in the folder /",
    },
    Wanted {
        is: |theirs, ours| has_no_bytes(theirs) && signals(theirs) > signals(ours),
        kind: WantedKind::Result,
        reason: "PMDK flushes a line for no bytes, and so may meet the end of a file that was cut",
    },
];

/// Returns true if the call flushes, copies or fills no bytes.
fn has_no_bytes(call: &str) -> bool {
    let words: Vec<&str> = call.split(' ').collect();
    let len = match words[0] {
        "flush" => 3,
        "copy" | "fill" => 4,
        _ => return false,
    };
    words.get(len) == Some(&"0")
}

fn signals(answer: &str) -> usize {
    answer.matches(" signal ").count()
}
