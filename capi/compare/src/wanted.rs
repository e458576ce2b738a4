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
    Wanted {
        is: |_, ours| {
            ours.starts_with("source_from_fd ")
                && [" is no file descriptor", " is not device DAX"].iter().any(|words| ours.contains(words))
        },
        kind: WantedKind::Message,
        reason: "PMDK leaves the message of an earlier failure for a number below 0 and for a character device",
    },
    Wanted {
        is: |_, ours| {
            ours.starts_with("source_questions ") && ours.contains(" message Device id is not supported")
        },
        kind: WantedKind::Message,
        reason: "PMDK leaves the message of an earlier failure for a source without a device",
    },
    Wanted {
        is: |_, ours| ours.contains(" message requested deep flush range "),
        kind: WantedKind::Message,
        reason: "PMDK's words have two slips and the address of its own object",
    },
    Wanted {
        is: |theirs, ours| theirs.starts_with("mcsafe ") && ours.contains(" goes beyond the file length 0; "),
        kind: WantedKind::Result,
        reason: "PMDK accesses a file past its end, and so extends it, if the offset is past the end, too",
    },
    Wanted {
        is: |theirs, ours| {
            theirs.starts_with("deep_flush ")
                && theirs.ends_with(" = 0")
                && ours.contains(" = -100001 message ")
        },
        kind: WantedKind::Result,
        reason: "PMDK syncs an anonymous source that pmem2_map_from_existing got, as if it were a file",
    },
    Wanted {
        is: |_, ours| {
            ["open ", "check ", "create "].iter().any(|call| ours.starts_with(call))
                && ours.contains(" message null is not device DAX")
        },
        kind: WantedKind::Message,
        reason: "PMDK leaves the message of an earlier failure for a character device that is no device-DAX node",
    },
    Wanted {
        is: |_, ours| {
            ours.contains(" appendv ") && ours.contains(" errno 28 message pmemlog_appendv: No space left")
        },
        kind: WantedKind::Message,
        reason: "PMDK leaves the message of an earlier failure if the parts are too long",
    },
    Wanted {
        is: |theirs, ours| {
            theirs.contains(" errno 11 message flock \"")
                && [
                    " message file size does not match config: ",
                    " smaller than 2097152, the least that a part",
                ]
                .iter()
                .any(|words| ours.contains(words))
        },
        kind: WantedKind::Result,
        reason: "PMDK looks for the features of a set in a part of another size, keeps its lock, and so refuses itself",
    },
    Wanted {
        is: |_, ours| ours.contains(" errno 95 message the pool set requires a remote replica"),
        kind: WantedKind::Result,
        reason: "PMDK sets no errno for a set with a replica on another machine",
    },
    Wanted {
        is: |theirs, ours| {
            theirs.contains("create \"set\"") && theirs.contains(" signal 7 ") && !ours.contains(" signal ")
        },
        kind: WantedKind::Result,
        reason: "PMDK touches all addresses that a folder of parts reserves, and so meets the end of its file",
    },
    Wanted {
        is: |_, ours| {
            ours.starts_with("feature ")
                && ours.contains(" message ")
                && ours.contains("its features are in doubt")
        },
        kind: WantedKind::Result,
        reason: "PMDK makes a sound checksum for a damaged header when it changes a feature",
    },
    Wanted {
        is: |theirs, ours| {
            !theirs.contains(" message ")
                && ours.strip_prefix(theirs).is_some_and(|rest| rest.starts_with(" message "))
        },
        kind: WantedKind::Message,
        reason: "PMDK has no words for this failure, and leaves the message of an earlier one",
    },
    Wanted {
        is: |theirs, ours| {
            theirs.starts_with("sync ")
                && theirs.ends_with(
                    " errno 22 message alien replica found (probably coming from a different poolset)",
                )
                && ours.contains(
                    " errno 22 message two consecutive unbroken parts are not linked to each other ",
                )
        },
        kind: WantedKind::Message,
        reason: "ours looks at the links of a part that the set names twice before it compares the replicas",
    },
    Wanted {
        is: |theirs, ours| {
            theirs.ends_with(
                " errno 12 message extending the pool by appending parts with headers is not supported!",
            ) && ours.contains(" errno 12")
        },
        kind: WantedKind::Message,
        reason: "PMDK says for a full pool how it could not grow",
    },
    Wanted {
        is: |theirs, ours| {
            let is_held = ours.contains(" held ");
            let is_unread = is_held && theirs.contains(" given pool type: unknown");
            let is_locked =
                (is_held || ours.contains(" twice")) && ours.contains(" errno 22 message flock \"");
            is_replica_call(ours) && (is_unread || is_locked)
        },
        kind: WantedKind::Result,
        reason: "PMDK takes a part for damaged that is open elsewhere, or twice in the set, and makes it anew below that user",
    },
    Wanted {
        is: |theirs, ours| {
            ours.starts_with("end ") && ours.ends_with(" check -1") && theirs.ends_with(" check 0")
        },
        kind: WantedKind::Result,
        reason: "PMDK opens a block pool that has lost its flog, of which its check says that it is inconsistent; ours refuses it",
    },
    Wanted {
        is: |theirs, ours| ours.starts_with("end ") && signals(theirs) > signals(ours),
        kind: WantedKind::Result,
        reason: "PMDK crashes in the open of a block pool that is no longer the one of its set file",
    },
    Wanted {
        is: |theirs, ours| is_replica_call(ours) && signals(theirs) > signals(ours),
        kind: WantedKind::Result,
        reason: "PMDK crashes for a set without headers, and where the option SINGLEHDR changes and the parts of a replica lie past the end of the \
                 pool, or replicas have another order",
    },
    Wanted {
        is: |theirs, ours| {
            theirs.starts_with("transform ")
                && theirs.contains(" = 0")
                && ours.contains(" message cannot change the order of replicas")
        },
        kind: WantedKind::Result,
        reason: "PMDK keeps the links of the old order, so that no program opens the new set",
    },
    Wanted {
        is: |theirs, ours| {
            let words = [
                " message some replicas are too small to hold synchronized data",
                " message pool sizes from different replicas differ",
                " message target poolset is too small",
                " message source poolset health check failed",
            ];
            is_replica_call(ours)
                && words.iter().any(|words| theirs.ends_with(words))
                && (ours.ends_with(" = 0") || ours.contains(" message source poolset is broken"))
        },
        kind: WantedKind::Result,
        reason: "PMDK reads the size of the pool from a damaged descriptor, and so does not take the replica for damaged",
    },
    Wanted {
        is: |theirs, ours| {
            theirs.contains(" errno 22 message transform is not supported for given pool type")
                && ours.contains(" errno 95 message remote replication not available")
        },
        kind: WantedKind::Result,
        reason: "of two reasons to refuse, ours tells the one that is in the set file",
    },
    Wanted {
        is: |theirs, ours| {
            is_replica_call(ours)
                && theirs.contains(" errno 79 message remote replication not available")
                && ours.contains(" errno 95 message remote replication not available")
        },
        kind: WantedKind::Result,
        reason: "PMDK leaves the errno of its loader, where pmempool_sync(3) promises ENOTSUP",
    },
    Wanted {
        is: |theirs, ours| {
            let has_buffer = theirs.contains(" buffer 0 ") && theirs.contains(" aborted ");
            has_buffer && trace(theirs) == trace(ours)
        },
        kind: WantedKind::Result,
        reason: "PMDK forgets old bytes in a log that has grown when the program appends a buffer to it, and so puts back only a part",
    },
];

fn is_replica_call(call: &str) -> bool {
    call.starts_with("sync ") || call.starts_with("transform ")
}

/// Returns the calls in a transaction, without the content that it leaves.
fn trace(answer: &str) -> &str {
    answer.rsplit_once(" words ").map_or(answer, |(trace, _)| trace)
}

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
