//! Seeded bugs: each breaks one rule of [the log](../../../../docs/log.md), and the crash explorer must find the loss.
//!
//! In an ordinary build none of this is compiled in; see [`lode_layout::bug`].

use lode_layout::bug::Bug;

/// Rule 1: there is no undo to revert a write-back of a record that did not become durable.
pub static WRITE_BACK_BEFORE_DRAIN: Bug =
    Bug::new("write-back-before-drain", "a transaction is there in part");
/// Rule 2: a record's checksum covers the epoch of the log, and numbers start above those of earlier log epochs.
pub static EPOCH_NOT_IN_CHECKSUM: Bug =
    Bug::new("epoch-not-in-checksum", "a record of an earlier log epoch is replayed");
/// Rule 2: a record's checksum covers its entries.
pub static TORN_RECORD: Bug = Bug::new("torn-record", "a record that was written in part is replayed");
/// Rule 2: the new log epoch is durable before its first record.
pub static EPOCH_NOT_DRAINED: Bug =
    Bug::new("epoch-not-drained", "records of the new log epoch are not believed");
/// Rule 3: a checkpoint's number covers no transaction whose write-backs are to come.
pub static CHECKPOINT_BEFORE_WRITE_BACK: Bug =
    Bug::new("checkpoint-before-write-back", "a slow thread's record is skipped");
/// Rule 4: dirty lines are flushed before the slot says that the log is not needed.
pub static CHECKPOINT_WITHOUT_FLUSH: Bug =
    Bug::new("checkpoint-without-flush", "write-backs are lost with the log that had them");
/// Rule 4: write-backs are drained before the slot.
pub static CHECKPOINT_WITHOUT_DRAIN: Bug =
    Bug::new("checkpoint-without-drain", "write-backs are lost with the log that had them");
/// Rule 4: the slot is durable before log space is used again.
pub static REUSE_BEFORE_SLOT: Bug = Bug::new("reuse-before-slot", "records are overwritten that are needed");
/// Rule 5: locks are released after the drain and the write-backs.
pub static EARLY_LOCK_RELEASE: Bug =
    Bug::new("early-lock-release", "a change is overwritten by a transaction that did not see it");
/// Rule 6: freed space is written outside of the log only when the checkpoint covers the free.
pub static EARLY_REUSE: Bug = Bug::new("early-reuse", "an older record is replayed over a new payload");
/// Rule 7: the payload of a ring's last record is checked.
pub static PAYLOAD_UNCHECKED: Bug =
    Bug::new("payload-unchecked", "an object has content that was never written");
/// Rule 7: the payload of an earlier record is not checked.
pub static OVERWRITTEN_PAYLOAD_CHECKED: Bug =
    Bug::new("overwritten-payload-checked", "a record is dropped because its payload was changed later");
/// Rule 7: in a shared ring, the payload of each record of the last batch is checked.
pub static LAST_PAYLOAD_ONLY: Bug =
    Bug::new("last-payload-only", "a block has content that was never written");
/// Rule 4: a checkpoint stores what deferred records change.
pub static DEFERRED_NOT_WRITTEN_BACK: Bug =
    Bug::new("deferred-not-written-back", "a checkpoint covers records that were never written back");
/// Rule 7: what a long transaction wrote outside of the log is durable before its record.
pub static SPILL_NOT_DRAINED: Bug =
    Bug::new("spill-not-drained", "an object of a long transaction has content that was never written");
/// Rule 8: a transaction returns when the batch that holds its record is durable.
pub static GROUP_COMMIT_BEFORE_SYNC: Bug =
    Bug::new("group-commit-before-sync", "an acknowledged record is lost");
/// Rule 9: recovery makes write-backs durable before it ends the old log epoch.
pub static RECOVERY_SLOT_BEFORE_DRAIN: Bug =
    Bug::new("recovery-slot-before-drain", "recovery itself loses data");
/// Rule 9: recovery repeats the records in the order of their numbers.
pub static REPLAY_BY_RING: Bug = Bug::new("replay-by-ring", "an older value replaces a newer one");
/// Rule 10: after a failed sync nothing is acknowledged.
pub static FAILED_SYNC_IGNORED: Bug = Bug::new("failed-sync-ignored", "an acknowledged record is lost");
/// Rule 11: the log is empty when the header names its new place.
pub static LOG_MOVED_WITH_RECORDS: Bug =
    Bug::new("log-moved-with-records", "records are left at the old place of the log");
/// Rule 11: the header names the new place of the log before a record is written there.
pub static LOG_MOVED_BEFORE_HEADER: Bug =
    Bug::new("log-moved-before-header", "records are written where no recovery looks for them");
/// Rule 11: the slot names the rings that are added before a record is written in one of them.
pub static RINGS_ADDED_BEFORE_SLOT: Bug =
    Bug::new("rings-added-before-slot", "a record is in a ring of which recovery does not know");
/// Rule 12: the header names new space before a record does.
pub static SPACE_BEFORE_HEADER: Bug = Bug::new("space-before-header", "an object lies outside of the pool");

/// Rule 13: what a transaction has read is compared once all its locks are held.
pub static READS_NOT_VALIDATED: Bug =
    Bug::new("reads-not-validated", "a change follows from values that were replaced meanwhile");
/// Rule 13: a closure sees one state: a newer value is read only if the earlier reads still hold.
pub static READS_NOT_EXTENDED: Bug =
    Bug::new("reads-not-extended", "a closure sees values that were never there together");

/// Rule 14: no transaction up to the number of a snapshot has write-backs to come when the snapshot is open.
pub static SNAPSHOT_WITHOUT_LANES: Bug =
    Bug::new("snapshot-without-lanes", "a snapshot sees a part of a transaction");
/// Rule 14: no record is in its write-back when a snapshot is opened.
pub static SNAPSHOT_IN_WRITE_BACK: Bug =
    Bug::new("snapshot-in-write-back", "a snapshot sees a part of a batch");
/// Rule 14: what records replace that wait for their write-back is kept for a snapshot that is opened meanwhile.
pub static SNAPSHOT_WITHOUT_WAITING_RECORDS: Bug =
    Bug::new("snapshot-without-waiting-records", "a snapshot sees a word of a record that waited");
/// Rule 14: no transaction whose record waits has compared its reads before one that the snapshot sees.
pub static SNAPSHOT_BEFORE_EARLY_READS: Bug =
    Bug::new("snapshot-before-early-reads", "a snapshot is of no moment in the order of transactions");
/// Rule 14: a word is kept before it is replaced.
pub static WORD_KEPT_TOO_LATE: Bug =
    Bug::new("word-kept-too-late", "a snapshot sees a word of a later transaction");
/// Rule 14: a transaction that compared its reads before a number that a snapshot sees gets no number after it.
pub static SNAPSHOT_BETWEEN_READS_AND_NUMBER: Bug =
    Bug::new("snapshot-between-reads-and-number", "a snapshot is of no moment in the order of transactions");

/// Rule 15: locks are handed on with the words that were changed under them.
pub static HANDED_ON_WITHOUT_WORDS: Bug =
    Bug::new("handed-on-without-words", "a change is overwritten by a transaction that did not see it");
/// Rule 15: write-backs follow the order of the log.
pub static WRITE_BACK_OUT_OF_ORDER: Bug =
    Bug::new("write-back-out-of-order", "an older value replaces a newer one");
/// Rule 15: a record is replayed only if those before it in its batch are there.
pub static REPLAY_AFTER_GAP: Bug =
    Bug::new("replay-after-gap", "a record is replayed without one from which it follows");
/// Rule 16: a transaction returns when what it has read is durable.
pub static RETURNS_BEFORE_WHAT_IT_READ: Bug =
    Bug::new("returns-before-what-it-read", "a value was read that is lost");

/// Rule 17: a checkpoint covers no record that waits for its sync.
pub static CHECKPOINT_OVER_WAITING: Bug =
    Bug::new("checkpoint-over-waiting", "a record that waits for its sync is skipped");
/// Rule 17: a ticket says that its transaction is durable after the sync.
pub static TICKET_BEFORE_SYNC: Bug =
    Bug::new("ticket-before-sync", "a transaction is lost whose ticket said that it is durable");
/// Rule 17: a ticket does not count a record that will never be written back.
pub static TICKET_AFTER_FAILED_SYNC: Bug =
    Bug::new("ticket-after-failed-sync", "a transaction is lost whose ticket said that it is durable");

/// Rule 18: a record whose write-back is deferred is in memory that outlives the process when its commit returns.
pub static RECORD_STORED_AT_SYNC: Bug =
    Bug::new("record-stored-at-sync", "a write that had returned is lost with the process");
/// Rule 18: padding comes before a record only if the batch before it is durable.
pub static PADDED_BEFORE_DRAIN: Bug =
    Bug::new("padded-before-drain", "a power cut looks like damage, and the pool is refused");
/// Rule 18: the ring's end comes before a record only if all records before it are durable.
pub static WRAPPED_BEFORE_DRAIN: Bug =
    Bug::new("wrapped-before-drain", "a power cut looks like damage, and the pool is refused");
/// Rule 19: recovery makes records and contents durable before it writes them back.
pub static REPLAYED_BEFORE_DRAIN: Bug =
    Bug::new("replayed-before-drain", "a map word names a data block without its content");
/// Rule 19: recovery stores again what nothing proves durable.
pub static LEFT_IN_CLEAN_PAGES: Bug =
    Bug::new("left-in-clean-pages", "a map word names a data block without its content");

/// Rule 20: a record has the image of each unit that it claims.
pub static IMAGE_LEFT_OUT: Bug =
    Bug::new("image-left-out", "a store of an open transaction is there after a power cut");
/// Rule 20: a unit is claimed before its image is read.
pub static IMAGE_BEFORE_CLAIM: Bug =
    Bug::new("image-before-claim", "a persist is taken back with the transaction of another thread");
/// Rule 20: a program stores where another thread's claim is durable.
pub static CLAIMED_TAKEN_FOR_COVERED: Bug =
    Bug::new("claimed-taken-for-covered", "a store of an open transaction is there after a power cut");
/// Rule 21: a record draws its number before it loads content.
pub static CONTENT_BEFORE_NUMBER: Bug =
    Bug::new("content-before-number", "an older value replaces a newer one");
/// Rule 21: a commit logs exactly its ranges.
pub static UNIT_LOGGED_WHOLE: Bug =
    Bug::new("unit-logged-whole", "a store of an open transaction is committed by another one");
/// Rule 21: a committed transaction is forgotten before its lane is released.
pub static OPEN_AFTER_COMMIT: Bug =
    Bug::new("open-after-commit", "a checkpoint takes a committed transaction back");
/// Rule 22: units of a new object that is logged are claimed.
pub static OBJECT_NOT_CLAIMED: Bug =
    Bug::new("object-not-claimed", "a persist is replaced by the older content of an object");
/// Rule 22: a large object's bytes in covered units are logged.
pub static LARGE_OBJECT_FLUSHED: Bug =
    Bug::new("large-object-flushed", "an object has the content that was there before it");
/// Rule 23: a persist logs what lies in covered units.
pub static PERSIST_IN_PLACE: Bug = Bug::new("persist-in-place", "recovery replaces a persisted value");
/// Rule 23: a persist asks for the states again when it holds a lane.
pub static STATE_NOT_ASKED_AGAIN: Bug =
    Bug::new("state-not-asked-again", "recovery replaces a persisted value");
/// Rule 23: a unit of the old epoch is not free.
pub static OLD_TAKEN_FOR_FREE: Bug =
    Bug::new("old-taken-for-free", "recovery replaces a persisted value by one of the old epoch");
/// Rule 23: a persist in a unit of the old epoch logs an image, too.
pub static OLD_WITHOUT_IMAGE: Bug =
    Bug::new("old-without-image", "recovery replaces a value by one that was persisted before it");
/// Rule 23: a persist leaves bytes of open transactions as they were.
pub static PERSIST_OF_OPEN_BYTES: Bug =
    Bug::new("persist-of-open-bytes", "a store of an open transaction is there after a power cut");
/// Rule 23: a persist waits for a commit of the same bytes.
pub static COMMIT_NOT_AWAITED: Bug =
    Bug::new("commit-not-awaited", "a committed value is replaced by the one before it");
/// Rule 23: a persist notices a transaction that ends while it reads.
pub static END_NOT_NOTICED: Bug =
    Bug::new("end-not-noticed", "a store of an aborted transaction is there after a power cut");
/// Rule 24: a checkpoint logs the units of open transactions anew.
pub static OPEN_FORGOTTEN: Bug =
    Bug::new("open-forgotten", "a store of an open transaction is there after a power cut");
/// Rule 24: it puts in the old bytes of all of them.
pub static OTHERS_BYTES_FORGOTTEN: Bug =
    Bug::new("others-bytes-forgotten", "a store of an open transaction is there after a power cut");
/// Rule 24: units of the old epoch are not free before the slot is durable.
pub static ONE_EPOCH: Bug = Bug::new("one-epoch", "recovery replaces a persisted value");
/// Rule 24: an abort holds a lane.
pub static ABORT_WITHOUT_LANE: Bug =
    Bug::new("abort-without-lane", "a store of an aborted transaction is there after a power cut");
/// Rule 25: recovery stores all images before it repeats other changes.
pub static COMMITS_BEFORE_IMAGES: Bug =
    Bug::new("commits-before-images", "a committed value is replaced by the one before it");
/// Rule 25: the old epoch of the log has ended before a program stores in place.
pub static EPOCH_NOT_BEGUN: Bug =
    Bug::new("epoch-not-begun", "recovery replaces a persisted value by one of the last opening");

/// Rule 10: a checkpoint logs no image when the log has failed.
pub static LOGGED_AFTER_FAILURE: Bug =
    Bug::new("logged-after-failure", "a store of a refused transaction is there after a power cut");

/// Rule 27: in careful mode the new bytes are durable at home before their record.
pub static SETTLED_BEFORE_FLUSH: Bug =
    Bug::new("settled-before-flush", "an acknowledged transaction is lost");
/// Rule 27: words that the library stores are settled before the call returns.
pub static WORDS_LEFT_PENDING: Bug =
    Bug::new("words-left-pending", "recovery replaces a store that its program has flushed");
/// Rule 27: an aborted transaction is settled.
pub static ABORT_NOT_SETTLED: Bug =
    Bug::new("abort-not-settled", "recovery replaces a store that its program has flushed");
/// Rule 27: recovery leaves settled bytes as they are.
pub static SETTLED_REPLAYED: Bug =
    Bug::new("settled-replayed", "recovery replaces a committed value by the one before it");

/// Rule 28: the images of the new epoch are in the second area before the slot names it.
pub static MOVED_WITHOUT_IMAGES: Bug =
    Bug::new("moved-without-images", "a store of an open transaction is there after a power cut");
/// Rule 28: the slot names the second area before a record is committed there.
pub static SLOT_NAMES_FIRST_AREA: Bug =
    Bug::new("slot-names-first-area", "an acknowledged transaction is lost");

/// Rule 26: a record belongs to its ring, whichever lane has it.
pub static SEALED_BY_LANE: Bug = Bug::new("sealed-by-lane", "an acknowledged transaction is lost");

/// Every bug of this crate that the heap's tests find.
pub static ALL: [&Bug; 36] = [
    &WRITE_BACK_BEFORE_DRAIN,
    &EPOCH_NOT_IN_CHECKSUM,
    &TORN_RECORD,
    &EPOCH_NOT_DRAINED,
    &CHECKPOINT_BEFORE_WRITE_BACK,
    &CHECKPOINT_WITHOUT_FLUSH,
    &CHECKPOINT_WITHOUT_DRAIN,
    &REUSE_BEFORE_SLOT,
    &EARLY_LOCK_RELEASE,
    &EARLY_REUSE,
    &PAYLOAD_UNCHECKED,
    &OVERWRITTEN_PAYLOAD_CHECKED,
    &SPILL_NOT_DRAINED,
    &GROUP_COMMIT_BEFORE_SYNC,
    &RECOVERY_SLOT_BEFORE_DRAIN,
    &REPLAY_BY_RING,
    &FAILED_SYNC_IGNORED,
    &LOG_MOVED_WITH_RECORDS,
    &LOG_MOVED_BEFORE_HEADER,
    &RINGS_ADDED_BEFORE_SLOT,
    &SPACE_BEFORE_HEADER,
    &READS_NOT_VALIDATED,
    &READS_NOT_EXTENDED,
    &SNAPSHOT_WITHOUT_LANES,
    &SNAPSHOT_IN_WRITE_BACK,
    &SNAPSHOT_WITHOUT_WAITING_RECORDS,
    &SNAPSHOT_BEFORE_EARLY_READS,
    &WORD_KEPT_TOO_LATE,
    &SNAPSHOT_BETWEEN_READS_AND_NUMBER,
    &HANDED_ON_WITHOUT_WORDS,
    &WRITE_BACK_OUT_OF_ORDER,
    &REPLAY_AFTER_GAP,
    &RETURNS_BEFORE_WHAT_IT_READ,
    &CHECKPOINT_OVER_WAITING,
    &TICKET_BEFORE_SYNC,
    &TICKET_AFTER_FAILED_SYNC,
];

/// Bugs that the tests of `lode-blocks` find: no other engine has payloads in a shared ring, or defers write-backs.
pub static OF_PAYLOADS: [&Bug; 7] = [
    &LAST_PAYLOAD_ONLY,
    &DEFERRED_NOT_WRITTEN_BACK,
    &RECORD_STORED_AT_SYNC,
    &PADDED_BEFORE_DRAIN,
    &WRAPPED_BEFORE_DRAIN,
    &REPLAYED_BEFORE_DRAIN,
    &LEFT_IN_CLEAN_PAGES,
];

/// Bugs of memory that programs store to in place.
pub static OF_COVER: [&Bug; 29] = [
    &IMAGE_LEFT_OUT,
    &IMAGE_BEFORE_CLAIM,
    &CLAIMED_TAKEN_FOR_COVERED,
    &CONTENT_BEFORE_NUMBER,
    &UNIT_LOGGED_WHOLE,
    &OPEN_AFTER_COMMIT,
    &OBJECT_NOT_CLAIMED,
    &LARGE_OBJECT_FLUSHED,
    &PERSIST_IN_PLACE,
    &STATE_NOT_ASKED_AGAIN,
    &OLD_TAKEN_FOR_FREE,
    &OLD_WITHOUT_IMAGE,
    &PERSIST_OF_OPEN_BYTES,
    &COMMIT_NOT_AWAITED,
    &END_NOT_NOTICED,
    &OPEN_FORGOTTEN,
    &OTHERS_BYTES_FORGOTTEN,
    &ONE_EPOCH,
    &ABORT_WITHOUT_LANE,
    &COMMITS_BEFORE_IMAGES,
    &EPOCH_NOT_BEGUN,
    &SEALED_BY_LANE,
    &LOGGED_AFTER_FAILURE,
    &SETTLED_BEFORE_FLUSH,
    &WORDS_LEFT_PENDING,
    &ABORT_NOT_SETTLED,
    &SETTLED_REPLAYED,
    &MOVED_WITHOUT_IMAGES,
    &SLOT_NAMES_FIRST_AREA,
];
