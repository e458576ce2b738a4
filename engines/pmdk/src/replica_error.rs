//! Errors of repairs of replicas and of changes of sets. They begin with PMDK's words: programs look for them.

use crate::error::PmdkError;
use std::path::{Path, PathBuf};

/// The reason why the replicas of a set could not be repaired, or why the set could not be changed into another one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// The file is no set file.
    #[error("{which}file is not a poolset file: {}; name a set file, which begins with PMEMPOOLSET", .path.display())]
    NotASet {
        /// Its name in the message: empty, `source ` or `destination `.
        which: &'static str,
        /// The file.
        path: PathBuf,
        /// The error number; EAGAIN if it is another file that is in use, 0 if it is one that is not.
        errno: i32,
    },
    /// The set file can't be used.
    #[error("parsing {which} poolset failed: {error}")]
    Parse {
        /// Its name in the message: `input`, `source` or `destination`.
        which: &'static str,
        /// The reason.
        #[source]
        error: PmdkError,
    },
    /// The set has a replica on another machine.
    #[error("remote replication not available: {error}")]
    Remote {
        /// The line of the set file.
        #[source]
        error: PmdkError,
    },
    /// A folder of parts is missing.
    #[error(
        "directory {} for part {part} in replica {replica} does not exist or is not accessible; make it", .folder.display()
    )]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Number of the replica.
        replica: usize,
        /// Number of the part.
        part: usize,
        /// The error number; 0 if it is no folder.
        errno: i32,
    },
    /// The set, or its parts, break a rule.
    #[error("{fault}; the pool set is {}", .path.display())]
    Set {
        /// The set file.
        path: PathBuf,
        /// The rule.
        #[source]
        fault: ReplicaFault,
    },
    /// No part can be opened.
    #[error("{error}; no other part can be opened either: restore one from a backup")]
    NoPart {
        /// The reason for the last one.
        #[source]
        error: PmdkError,
    },
    /// The source of a change is damaged.
    #[error("source poolset health check failed: {0}")]
    Source(Box<ReplicaError>),
    /// A part could not be read, made or written.
    #[error(transparent)]
    Pool(#[from] PmdkError),
}

/// The rules that sets and their parts can break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaFault {
    /// The set has no replica to repair from.
    #[error("no replica(s) found in the pool set: only the master; add a replica by 'pmempool transform'")]
    NoReplica,
    /// A part is smaller than the least pool.
    #[error(
        "replica {replica}, part {part}: file is too small: 8 MiB is the least here; give it a larger size"
    )]
    PartTooSmall {
        /// Number of the replica.
        replica: usize,
        /// Number of the part.
        part: usize,
    },
    /// A part of the new set is smaller than the least pool.
    #[error("part sizes check failed: a part has less than 8 MiB; give it a larger size")]
    PartSizes,
    /// No replica is whole.
    #[error("no healthy replica found: each has a missing or damaged part; restore one from a backup")]
    NoHealthyReplica,
    /// Parts of one replica belong to different pools.
    #[error(
        "different poolset uuids in parts from the same replica (repn {replica}, parts {part} and {other}) - cannot \
         synchronize; restore the foreign part"
    )]
    PartsOfPools {
        /// Number of the replica.
        replica: usize,
        /// Number of the first part.
        part: usize,
        /// Number of the other one.
        other: usize,
    },
    /// Parts of one replica have different neighbours.
    #[error(
        "different adjacent replica UUID between parts (repn {replica}, parts {part} and {other}) - cannot synchronize; \
         restore the part of another replica"
    )]
    Adjacent {
        /// Number of the replica.
        replica: usize,
        /// Number of the first part.
        part: usize,
        /// Number of the other one.
        other: usize,
    },
    /// Two sound parts are no neighbours.
    #[error(
        "two consecutive unbroken parts are not linked to each other (repn {replica}, parts {part} and {}) - cannot \
         synchronize; write them in the order of the creation", .part + 1
    )]
    Unlinked {
        /// Number of the replica.
        replica: usize,
        /// Number of the first part.
        part: usize,
    },
    /// Replicas belong to different pools.
    #[error(
        "inconsistent poolset uuids between replicas {replica} and {other} - cannot synchronize; restore the foreign replica"
    )]
    ReplicasOfPools {
        /// Number of a healthy replica.
        replica: usize,
        /// Number of the other one.
        other: usize,
    },
    /// Two replicas are no neighbours.
    #[error(
        "inconsistent replica uuids between replicas {replica} and {other}; write them in the order of the creation"
    )]
    Neighbours {
        /// Number of the replica.
        replica: usize,
        /// Number of the one after it.
        other: usize,
    },
    /// The replicas around a damaged one do not name the same one.
    #[error(
        "inconsistent replica uuids on borders of replica {replica}; write them in the order of the creation"
    )]
    Borders {
        /// Number of the replica before the damaged one.
        replica: usize,
    },
    /// The replicas are those of a smaller set.
    #[error(
        "alien replica found (probably coming from a different poolset); use the set file of the creation"
    )]
    Alien,
    /// A replica has less room than the pool needs.
    #[error("some replicas are too small to hold synchronized data; use the set file of the creation")]
    ReplicaTooSmall,
    /// Pools of different sizes.
    #[error("pool sizes from different replicas differ; use the set file of the creation")]
    SizesDiffer,
    /// An interrupted repair of bad blocks by PMDK, without the flag.
    #[error(
        "error: a bad block recovery file exists, but the '--bad-blocks' option is not set\n       please read the manual first \
         and use this option\n       ONLY IF you are sure that you know what you are doing"
    )]
    RecoveryFile,
    /// Lost ranges, without the flag.
    #[error(
        "error: bad blocks found, but the '--bad-blocks' option is not set\n       please read the manual first and use this \
         option\n       ONLY IF you are sure that you know what you are doing"
    )]
    BadBlocks,
    /// A recovery file with ranges in another order.
    #[error(
        "wrong format of bad block recovery file (bad blocks are not sorted by the offset in ascending order) -- '{}'; restore it",
        .0.display()
    )]
    RecoveryOrder(PathBuf),
    /// A range is lost in all replicas.
    #[error(
        "a part of the pool has uncorrectable errors in all replicas, at offset {0}; restore it from a backup"
    )]
    Uncorrectable(u64),
    /// A damaged header names a replica twice.
    #[error(
        "gathering uuids failed: repeated uuid - some replicas were created with a different poolset file; use that one"
    )]
    RepeatedUuid,
    /// The pool is of another library.
    #[error("transform is not supported for given pool type: {0}; only pools of objects have replicas")]
    PoolType(&'static str),
    /// Parts in folders.
    #[error("transform of directory poolsets is not supported; name files in the set file")]
    Directories,
    /// A file is a part twice.
    #[error("some part file's path is used multiple times: {}; each part must be a file of its own", .0.display())]
    PartTwice(PathBuf),
    /// The new set has no room for the pool.
    #[error(
        "target poolset is too small; give its replicas the size of the pool, and a header for each part"
    )]
    TargetTooSmall,
    /// The first part can't be opened, or has another size.
    #[error(
        "getting pool size from master replica failed: its first part is damaged; run 'pmempool sync' first"
    )]
    MasterSize,
    /// The old set needs a repair.
    #[error("source poolset is broken; run 'pmempool sync' first")]
    SourceBroken,
    /// A replica is there twice, or a set has no headers.
    #[error("comparing poolsets failed: {0}")]
    Comparison(&'static str),
    /// No replica is kept.
    #[error("there must be at least one replica left; keep one in the new set file")]
    NoneLeft,
    /// Two changes at once.
    #[error("adding and removing replicas at the same time is not allowed; do one after the other")]
    AddedAndRemoved,
    /// Two changes at once.
    #[error(
        "cannot add/remove replicas and change the SINGLEHDR option at the same time; do one after the other"
    )]
    ReplicasAndOption,
    /// Replicas in another order, and an option that concerns all of them.
    #[error(
        "cannot change the order of replicas and the SINGLEHDR option at the same time; write the replicas in the order of the \
         source set file"
    )]
    OrderAndOption,
    /// No change.
    #[error("both poolsets are equal; change the second set file")]
    Equal,
    /// A file of the new replica is there already.
    #[error("some parts being added already exist: {}; remove it, or name another file", .0.display())]
    PartExists(PathBuf),
    /// Device-DAX nodes whose content would have to be moved in place.
    #[error(
        "the headers of device-DAX nodes can't be added or removed: that would move their content in place; add a replica of the \
         new form, and remove the old one"
    )]
    NodeHeaders,
    /// A device-DAX node that has a sound header and lost ranges.
    #[error(
        "{} is a device-DAX node that has lost ranges, which would be repaired in place; clear the node, and run 'pmempool sync' \
         again, which makes all of it anew", .0.display()
    )]
    NodeLost(PathBuf),
}

impl ReplicaError {
    /// Returns a function that makes an error of a fault of the set.
    pub(crate) fn set(path: &Path) -> impl Fn(ReplicaFault) -> ReplicaError {
        move |fault| ReplicaError::Set { path: path.to_owned(), fault }
    }
}
