//! The settings and statistics of pmemobj_ctl_get(3) and its relatives.
//!
//! `name` finds a setting by its name, `config` reads the variables of the environment, and this module gets, sets and runs.

mod config;
mod name;

pub(crate) use config::{load_for_pool, load_globals};
pub(crate) use name::{Access, Kind, Name};

use crate::allocation::ALLOC_SIZE_MAX;
use crate::failure::failure;
use crate::first_arenas::{assignment_type, first_arenas, set_assignment_type, set_count};
use crate::memory::PART_MIN;
use crate::pool::OpenPool;
use crate::settings::PoolSettings;
use lode_capi_entry::Failure;
use lode_layout::PmdkObjectHeaderKind;
use lode_obj::{ClassDescription, ClassError};
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

/// The most bytes to which objects are aligned.
const ALIGNMENT_MAX: u64 = 2 << 20;
/// Number of identifiers of classes.
const CLASSES: i64 = 255;

/// A setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Int(c_int),
    Unsigned(u32),
    Long(i64),
    Word(u64),
    /// Of a setting that does nothing, whose value no call stores.
    Nothing,
    Class(ClassValue),
}

/// The `struct pobj_alloc_class_desc` of the headers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassValue {
    pub(crate) unit_size: u64,
    pub(crate) alignment: u64,
    pub(crate) units_per_block: u32,
    pub(crate) header_type: u32,
    pub(crate) class_id: u32,
}

/// Returns the place of a setting that is an int of the pool.
fn int_of(settings: &PoolSettings, name: Name) -> Option<&AtomicI32> {
    match name {
        Name::SkipExpensiveChecks => Some(&settings.skip_expensive_checks),
        Name::VerifyUserBuffers => Some(&settings.verify_user_buffers),
        Name::AllocPattern => Some(&settings.alloc_pattern),
        Name::StatsEnabled => Some(&settings.stats_enabled),
        _ => None,
    }
}

/// Returns the pool of a setting that belongs to one. [`Name::find`] has checked that there is one.
fn of_pool(pool: Option<&OpenPool>) -> Result<&OpenPool, Failure> {
    pool.ok_or_else(|| Failure::invalid("the setting belongs to a pool; pass an open one"))
}

/// Returns the value of a setting.
///
/// # Errors
/// ERANGE for an arena or a class that can't be there, ENOENT for a class that is not there.
pub(crate) fn get(pool: Option<&OpenPool>, name: Name) -> Result<Value, Failure> {
    match name {
        Name::Shared(setting) => return Ok(Value::Int(setting.value())),
        Name::ArenasAssignmentType => return Ok(Value::Int(assignment_type())),
        Name::ArenasDefaultMax => return Ok(Value::Unsigned(first_arenas().count)),
        _ => {}
    }
    let pool = of_pool(pool)?;
    let (engine, settings) = (&pool.engine, &pool.settings);
    if let Some(value) = int_of(settings, name) {
        // ORDER: a number of its own, which orders nothing.
        return Ok(Value::Int(value.load(Ordering::Relaxed)));
    }
    let counts = || engine.heap_counts().map_err(|error| failure(&error, "pmemobj_ctl_get"));
    Ok(match name {
        // ORDER: a number of its own, which orders nothing.
        Name::CacheSize => Value::Long(settings.cache_size.load(Ordering::Relaxed)),
        Name::CacheThreshold => Value::Long(0),
        Name::QueueDepth => Value::Int(0),
        Name::Granularity => Value::Word(engine.growth_step()),
        Name::ArenasAutomatic => Value::Unsigned(engine.arenas().0),
        Name::ArenasTotal => Value::Unsigned(engine.arenas().1),
        Name::ArenasMax => Value::Unsigned(arenas_max(pool)),
        Name::ThreadArena => Value::Unsigned(engine.thread_arena()),
        Name::ArenaSize(number) => Value::Word(arena(pool, number)?.1.0),
        Name::ArenaAutomatic(number) => Value::Int(arena(pool, number)?.1.1.into()),
        Name::CurrAllocated => Value::Word(counts()?.0),
        Name::RunAllocated => Value::Word(counts()?.1),
        Name::RunActive => Value::Word(counts()?.2),
        Name::Class(id) => Value::Class(class(pool, id)?),
        _ => Value::Nothing,
    })
}

/// Returns the number of an arena, its bytes of chunks, and true if threads get it by themselves.
fn arena(pool: &OpenPool, number: i64) -> Result<(u32, (u64, bool)), Failure> {
    let found = u32::try_from(number).ok().filter(|number| *number != 0);
    let found = found.and_then(|number| Some((number, pool.engine.arena(number)?)));
    let (_, total, _) = pool.engine.arenas();
    found.ok_or_else(|| {
        let text = format!("arena id outside of the allowed range: <1,{total}>; {number} was given");
        Failure::new(libc::ERANGE, text)
    })
}

fn arenas_max(pool: &OpenPool) -> u32 {
    let (_, _, max) = pool.engine.arenas();
    // ORDER: a number of its own, which orders nothing.
    match pool.settings.arenas_max.load(Ordering::Relaxed) {
        0 => max,
        set => set,
    }
}

fn class(pool: &OpenPool, id: i64) -> Result<ClassValue, Failure> {
    let id = u8::try_from(id).ok().filter(|id| i64::from(*id) < CLASSES);
    let id = id.ok_or_else(|| {
        Failure::new(libc::ERANGE, "class id outside of the allowed range; it goes from 0 to 254")
    })?;
    let class = pool.engine.class(id);
    class.map(|class| class_value(&class, id)).ok_or_else(|| {
        Failure::new(libc::ENOENT, format!("class with the given id does not exist; {id} is free"))
    })
}

/// Returns the POBJ_HEADER_* of a kind.
fn header_type(header: PmdkObjectHeaderKind) -> u32 {
    match header {
        PmdkObjectHeaderKind::Legacy => 0,
        PmdkObjectHeaderKind::Compact => 1,
        PmdkObjectHeaderKind::None => 2,
    }
}

fn class_value(class: &ClassDescription, id: u8) -> ClassValue {
    let header_type = header_type(class.header);
    ClassValue {
        unit_size: class.unit_size,
        alignment: class.alignment,
        units_per_block: class.units_per_run,
        header_type,
        class_id: id.into(),
    }
}

/// Sets a setting. Returns the value that the program gets back.
///
/// # Errors
/// EINVAL, ERANGE or EEXIST for a value that the setting does not take.
pub(crate) fn set(pool: Option<&OpenPool>, name: Name, value: Value) -> Result<Value, Failure> {
    match (name, value) {
        (Name::Shared(setting), Value::Int(new)) => setting.set(new),
        (Name::ArenasAssignmentType, Value::Int(new)) => set_assignment_type(new),
        (Name::ArenasDefaultMax, Value::Unsigned(new)) => {
            if new == 0 {
                return Err(Failure::invalid("a pool has at least one arena; set 1 or more"));
            }
            set_count(new);
        }
        _ => return set_of_pool(of_pool(pool)?, name, value),
    }
    Ok(value)
}

fn set_of_pool(pool: &OpenPool, name: Name, value: Value) -> Result<Value, Failure> {
    let settings = &pool.settings;
    if let (Some(setting), Value::Int(new)) = (int_of(settings, name), value) {
        // ORDER: a number of its own, which orders nothing.
        setting.store(new, Ordering::Relaxed);
        return Ok(value);
    }
    match (name, value) {
        (Name::CacheSize, Value::Long(new)) => {
            if !u64::try_from(new).is_ok_and(|new| new <= ALLOC_SIZE_MAX) {
                return Err(Failure::invalid(
                    "invalid cache size, must be between 0 and max alloc size; choose a smaller one",
                ));
            }
            // ORDER: as above.
            settings.cache_size.store(new, Ordering::Relaxed);
        }
        // PMDK has no use for these two, and takes any value.
        (Name::CacheThreshold, Value::Long(_)) | (Name::QueueDepth, Value::Int(_)) => {}
        (Name::Granularity, Value::Word(new)) => {
            if new != 0 && new < PART_MIN {
                let text = format!("incorrect grow size, must be 0 or larger than {PART_MIN}");
                return Err(Failure::invalid(text));
            }
            pool.engine.set_growth_step(new);
        }
        (Name::ArenasMax, Value::Unsigned(new)) => {
            let (_, total, max) = pool.engine.arenas();
            if new < total || new > max {
                return Err(Failure::invalid(format!(
                    "a pool with {total} arenas can have {total} to {max} at most"
                )));
            }
            // ORDER: as above.
            settings.arenas_max.store(new, Ordering::Relaxed);
        }
        (Name::ThreadArena, Value::Unsigned(new)) => {
            let (number, _) = arena(pool, new.into())?;
            pool.engine.set_thread_arena(number).map_err(|error| failure(&error, "pmemobj_ctl_set"))?;
        }
        (Name::ArenaAutomatic(_), Value::Int(new)) if !(0..=1).contains(&new) => {
            return Err(Failure::invalid(format!(
                "an arena is automatic or not, and {new} is neither; set 1 or 0"
            )));
        }
        (Name::ArenaAutomatic(number), Value::Int(new)) => set_automatic(pool, number, new == 1)?,
        (Name::Class(id), Value::Class(new)) => return add_class(pool, Some(id), new),
        (Name::NewClass, Value::Class(new)) => return add_class(pool, None, new),
        _ => return Err(Failure::invalid("the setting can't be set; read or run it")),
    }
    Ok(value)
}

fn set_automatic(pool: &OpenPool, number: i64, is_automatic: bool) -> Result<(), Failure> {
    let (number, (_, was_automatic)) = arena(pool, number)?;
    let (_, total, _) = pool.engine.arenas();
    let are_automatic =
        (1..=total).filter(|number| pool.engine.arena(*number).is_some_and(|(_, automatic)| automatic));
    if was_automatic && !is_automatic && are_automatic.count() == 1 {
        return Err(Failure::invalid(
            "at least one automatic arena must exist; make another one automatic first",
        ));
    }
    let set = pool.engine.set_arena_automatic(number, is_automatic);
    set.map_err(|error| failure(&error, "pmemobj_ctl_set"))
}

/// Makes a class, with this identifier or the next free one.
fn add_class(pool: &OpenPool, id: Option<i64>, new: ClassValue) -> Result<Value, Failure> {
    let ClassValue { unit_size, alignment, units_per_block, header_type, .. } = new;
    if unit_size == 0 || unit_size > ALLOC_SIZE_MAX || units_per_block == 0 {
        return Err(Failure::invalid(format!(
            "unable to register allocation class; it has units of 1 to {ALLOC_SIZE_MAX} bytes, and at least one in a block"
        )));
    }
    if alignment != 0 && !unit_size.is_multiple_of(alignment) {
        return Err(Failure::invalid(
            "unit size must be evenly divisible by alignment; choose another of the two",
        ));
    }
    if alignment > ALIGNMENT_MAX {
        return Err(Failure::invalid("alignment cannot be larger than 2 megabytes; choose a smaller one"));
    }
    let header = match header_type {
        0 => PmdkObjectHeaderKind::Legacy,
        1 => PmdkObjectHeaderKind::Compact,
        2 => PmdkObjectHeaderKind::None,
        _ => return Err(Failure::invalid("invalid header type; pass one of enum pobj_header_type")),
    };
    let checked = |id: i64| u8::try_from(id).ok().filter(|id| i64::from(*id) < CLASSES);
    let id = match id {
        None => None,
        Some(id) => Some(checked(id).ok_or_else(|| {
            Failure::new(libc::ERANGE, "class id outside of the allowed range; it goes from 0 to 254")
        })?),
    };
    let description = ClassDescription { unit_size, alignment, units_per_run: units_per_block, header, id };
    let id = pool.engine.add_class(&description).map_err(|error| class_failure(&error))?;
    class(pool, id.into()).map(Value::Class)
}

fn class_failure(error: &ClassError) -> Failure {
    match error {
        ClassError::Exists { .. } => {
            Failure::new(libc::EEXIST, format!("attempted to overwrite an allocation class; {error}"))
        }
        _ => Failure::invalid(format!("unable to register allocation class; {error}")),
    }
}

/// Runs a setting. Returns the value that the program gets back.
///
/// # Errors
/// ENOMEM if the pool has as many arenas as it can have; EINVAL for a size by which it can't grow.
pub(crate) fn run(pool: Option<&OpenPool>, name: Name, value: Value) -> Result<Value, Failure> {
    let pool = of_pool(pool)?;
    match (name, value) {
        (Name::ArenaCreate, _) => {
            let (_, total, _) = pool.engine.arenas();
            let max = arenas_max(pool);
            if total >= max {
                let text = format!("the pool has {total} arenas, and can have {max}; raise heap.narenas.max");
                return Err(Failure::new(libc::ENOMEM, text));
            }
            let number = pool.engine.add_arena().map_err(|error| failure(&error, "pmemobj_ctl_exec"))?;
            Ok(Value::Unsigned(number))
        }
        (Name::Extend, Value::Word(size)) if size < PART_MIN => Err(Failure::invalid(format!(
            "incorrect size for extend, must be larger than {PART_MIN}; choose a larger one"
        ))),
        (Name::Extend, Value::Word(size)) => {
            pool.check_owner("pmemobj_ctl_exec")?;
            pool.engine.extend(size).map_err(|error| failure(&error, "pmemobj_ctl_exec"))?;
            Ok(Value::Word(size))
        }
        _ => Err(Failure::invalid("the setting can't be run; read or set it")),
    }
}
