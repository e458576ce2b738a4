//! Names of settings, and what each of them takes.

use lode_capi_entry::{Failure, Setting, ctl_words};

/// The use that a call makes of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Get,
    Set,
    Run,
}

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// One of the four that all libraries of pools have.
    Shared(Setting),
    ArenasAssignmentType,
    ArenasDefaultMax,
    SkipExpensiveChecks,
    VerifyUserBuffers,
    CacheSize,
    CacheThreshold,
    QueueDepth,
    Worker,
    Stop,
    AllocPattern,
    ArenasAutomatic,
    ArenasTotal,
    ArenasMax,
    ArenaCreate,
    ThreadArena,
    /// Of the arena with this number.
    ArenaSize(i64),
    /// Of the arena with this number.
    ArenaAutomatic(i64),
    /// Of the class with this identifier.
    Class(i64),
    NewClass,
    StatsEnabled,
    CurrAllocated,
    RunAllocated,
    RunActive,
    Granularity,
    Extend,
}

/// The type of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An int, or an enum.
    Int,
    Unsigned,
    Long,
    Word,
    /// `void *`, which no call stores.
    Pointer,
    Class,
}

use Access::{Get, Run, Set};

/// The settings without a number in their names, and what they take.
const NAMES: &[(&str, Name, &[Access])] = &[
    ("heap.arenas_assignment_type", Name::ArenasAssignmentType, &[Get, Set]),
    ("heap.arenas_default_max", Name::ArenasDefaultMax, &[Get, Set]),
    ("tx.debug.skip_expensive_checks", Name::SkipExpensiveChecks, &[Get, Set]),
    ("tx.debug.verify_user_buffers", Name::VerifyUserBuffers, &[Get, Set]),
    ("tx.cache.size", Name::CacheSize, &[Get, Set]),
    ("tx.cache.threshold", Name::CacheThreshold, &[Get, Set]),
    ("tx.post_commit.queue_depth", Name::QueueDepth, &[Get, Set]),
    ("tx.post_commit.worker", Name::Worker, &[Get]),
    ("tx.post_commit.stop", Name::Stop, &[Get]),
    ("debug.heap.alloc_pattern", Name::AllocPattern, &[Get, Set]),
    ("heap.narenas.automatic", Name::ArenasAutomatic, &[Get]),
    ("heap.narenas.total", Name::ArenasTotal, &[Get]),
    ("heap.narenas.max", Name::ArenasMax, &[Get, Set]),
    ("heap.arena.create", Name::ArenaCreate, &[Run]),
    ("heap.thread.arena_id", Name::ThreadArena, &[Get, Set]),
    ("heap.alloc_class.new.desc", Name::NewClass, &[Set]),
    ("stats.enabled", Name::StatsEnabled, &[Get, Set]),
    ("stats.heap.curr_allocated", Name::CurrAllocated, &[Get]),
    ("stats.heap.run_allocated", Name::RunAllocated, &[Get]),
    ("stats.heap.run_active", Name::RunActive, &[Get]),
    ("heap.size.granularity", Name::Granularity, &[Get, Set]),
    ("heap.size.extend", Name::Extend, &[Run]),
];

impl Name {
    /// Finds the setting of this name that can be accessed so. Without a pool only those of the library are there.
    ///
    /// # Errors
    /// EINVAL if there is none.
    pub(crate) fn find(name: &[u8], access: Access, has_pool: bool) -> Result<Name, Failure> {
        let found = Name::named(name).filter(|(_, accesses)| accesses.contains(&access));
        found.map(|(name, _)| name).filter(|name| has_pool || name.is_global()).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let remedy = if has_pool {
                "pmemobj_ctl_get(3) lists the settings"
            } else {
                "most settings belong to a pool"
            };
            Failure::invalid(format!("invalid query entry point {name}; {remedy}"))
        })
    }

    fn named(name: &[u8]) -> Option<(Name, &'static [Access])> {
        if let Ok(setting) = Setting::named(name) {
            return Some((Name::Shared(setting), &[Get, Set]));
        }
        let is = |known: &str| ctl_words(name, b'.').eq(known.split('.').map(str::as_bytes));
        if let Some((_, name, accesses)) = NAMES.iter().find(|(known, _, _)| is(known)) {
            return Some((*name, accesses));
        }
        let words: Vec<&[u8]> = ctl_words(name, b'.').collect();
        let [b"heap", group, number, last] = words[..] else { return None };
        let number = std::str::from_utf8(number).ok()?.parse().ok()?;
        match (group, last) {
            (b"arena", b"size") => Some((Name::ArenaSize(number), &[Get])),
            (b"arena", b"automatic") => Some((Name::ArenaAutomatic(number), &[Get, Set])),
            (b"alloc_class", b"desc") => Some((Name::Class(number), &[Get, Set])),
            _ => None,
        }
    }

    /// Returns true for a setting that belongs to no pool.
    fn is_global(self) -> bool {
        matches!(self, Name::Shared(_) | Name::ArenasAssignmentType | Name::ArenasDefaultMax)
    }

    /// Returns the type of its value.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Name::Shared(_)
            | Name::ArenasAssignmentType
            | Name::SkipExpensiveChecks
            | Name::VerifyUserBuffers
            | Name::QueueDepth
            | Name::AllocPattern
            | Name::ArenaAutomatic(_)
            | Name::StatsEnabled => Kind::Int,
            Name::ArenasDefaultMax
            | Name::ArenasAutomatic
            | Name::ArenasTotal
            | Name::ArenasMax
            | Name::ArenaCreate
            | Name::ThreadArena => Kind::Unsigned,
            Name::CacheSize | Name::CacheThreshold => Kind::Long,
            Name::Worker | Name::Stop => Kind::Pointer,
            Name::ArenaSize(_)
            | Name::CurrAllocated
            | Name::RunAllocated
            | Name::RunActive
            | Name::Granularity
            | Name::Extend => Kind::Word,
            Name::Class(_) | Name::NewClass => Kind::Class,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn names_are_found_as_pmdk_finds_them() {
        let find = |name: &str, access| Name::find(name.as_bytes(), access, true).ok();
        assert_eq!(find("tx.cache.size", Get), Some(Name::CacheSize));
        assert_eq!(find("..tx...cache.size.", Set), Some(Name::CacheSize));
        assert_eq!(find("heap.arena.17.size", Get), Some(Name::ArenaSize(17)));
        assert_eq!(find("heap.alloc_class.-1.desc", Get), Some(Name::Class(-1)));
        assert_eq!(find("heap.alloc_class.new.desc", Set), Some(Name::NewClass));
        assert_eq!(find("sds.at_create", Set), Some(Name::Shared(Setting::ShutdownStateAtCreate)));
        for (name, access) in [
            ("heap.arena.17.size", Set),
            ("heap.alloc_class.new.desc", Get),
            ("heap.alloc_class.x.desc", Get),
            ("heap.arena.1", Get),
            ("heap.arena.create", Set),
            ("tx.cache.size", Run),
            ("tx.cache.size.x", Get),
            ("", Get),
        ] {
            assert_eq!(find(name, access), None, "{name}");
        }
        assert!(Name::find(b"tx.cache.size", Get, false).is_err());
        assert!(Name::find(b"heap.arenas_default_max", Get, false).is_ok());
    }
}
