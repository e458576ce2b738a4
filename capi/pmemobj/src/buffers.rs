//! The memory that programs have appended to logs, for those that want to be told of memory in two logs.

use lode_capi_entry::Table;
use std::ops::Range;

/// The addresses of memory in logs of open transactions.
static IN_USE: Table<Vec<Range<usize>>> = Table::new(Vec::new());

/// Takes memory for a log. Returns false if some of it is in another log, and in a signal handler that has interrupted the same.
pub(crate) fn take(memory: &Range<usize>) -> bool {
    let taken = IN_USE.with(|used| {
        let is_free = used.iter().all(|other| other.end <= memory.start || memory.end <= other.start);
        if is_free {
            used.push(memory.clone());
        }
        is_free
    });
    taken == Some(true)
}

/// Gives memory back that was taken.
pub(crate) fn release(memory: &Range<usize>) {
    IN_USE.with(|used| used.retain(|other| other != memory));
}

/// Gives all memory of a pool back, which is about to be closed: threads that have ended in a transaction do not.
pub(crate) fn release_all(pool: &Range<usize>) {
    IN_USE.with(|used| used.retain(|other| !pool.contains(&other.start)));
}

/// Takes the lock, so that a child finds the list whole.
pub(crate) fn before_fork() {
    IN_USE.before_fork();
}

/// Releases the lock, in the parent and in the child.
pub(crate) fn after_fork() {
    IN_USE.after_fork();
}

/// Forgets what the threads of the parent have taken: the child has none of their transactions.
pub(crate) fn begin_child() {
    IN_USE.with(Vec::clear);
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn memory_is_in_one_log() {
        assert!(take(&(100..200)) && take(&(200..300)));
        for taken in [100..200, 199..201, 0..101, 299..400, 120..130, 0..1000] {
            assert!(!take(&taken), "{taken:?}");
        }
        release(&(100..200));
        assert!(take(&(120..130)) && !take(&(100..200)));
        release_all(&(110..200));
        assert!(take(&(100..200)) && !take(&(200..201)));
        release_all(&(0..1000));
    }
}
