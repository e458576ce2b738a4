//! Values of settings in `PMEMOBJ_CONF` and in the file that `PMEMOBJ_CONF_FILE` names.

use super::name::{Access, Name};
use super::{ClassValue, Value, header_type, set};
use crate::pool::OpenPool;
use lode_capi_entry::{CtlClass, CtlQuery, Failure, Variable, read_variables};

/// Sets what the variables say about the library. Other names are left out.
///
/// # Errors
/// EINVAL if a variable can't be parsed.
pub(crate) fn load_globals(variable: Variable<'_>) -> Result<(), Failure> {
    read_variables("PMEMOBJ", variable, &mut |query| {
        // A wrong value fails the next open of a pool, as with PMDK.
        let _ = apply(None, query);
        Ok(())
    })
}

/// Sets what the variables say, for a pool that was just opened.
///
/// # Errors
/// EINVAL if a variable can't be parsed, a name is unknown, or a value is refused.
pub(crate) fn load_for_pool(pool: &OpenPool, variable: Variable<'_>) -> Result<(), Failure> {
    read_variables("PMEMOBJ", variable, &mut |query| {
        apply(Some(pool), query).map_err(|failure| failure.text.into_owned())
    })
    .map_err(|failure| Failure::invalid(format!("pool initialization failed; {}", failure.text)))
}

fn apply(pool: Option<&OpenPool>, query: &CtlQuery<'_>) -> Result<(), Failure> {
    let name = Name::find(query.name, Access::Set, pool.is_some())?;
    let value = parse(name, query).ok_or_else(|| {
        let [name, value] = [query.name, query.value].map(String::from_utf8_lossy);
        Failure::invalid(format!("{value} is no value of {name}; pmemobj_ctl_get(3) lists the values"))
    })?;
    set(pool, name, value).map(drop)
}

/// Returns the value of a query; `None` if it is none of this setting, or the setting has none in a text.
fn parse(name: Name, query: &CtlQuery<'_>) -> Option<Value> {
    let text = query.value;
    match name {
        Name::Shared(_) | Name::SkipExpensiveChecks | Name::VerifyUserBuffers | Name::ArenaAutomatic(_) => {
            query.switch().map(|is_set| Value::Int(is_set.into()))
        }
        Name::QueueDepth | Name::AllocPattern => {
            query.integer().and_then(|number| i32::try_from(number).ok()).map(Value::Int)
        }
        Name::CacheSize | Name::CacheThreshold => query.integer().map(Value::Long),
        Name::Granularity => query.integer().and_then(|number| u64::try_from(number).ok()).map(Value::Word),
        Name::ArenasDefaultMax | Name::ThreadArena => {
            query.integer().and_then(|number| u32::try_from(number).ok()).map(Value::Unsigned)
        }
        Name::ArenasAssignmentType => match text {
            b"thread" => Some(Value::Int(0)),
            b"global" => Some(Value::Int(1)),
            _ => None,
        },
        Name::StatsEnabled => Some(Value::Int(match text {
            b"transient" => 0,
            b"persistent" => 2,
            b"disabled" => 3,
            // Any other word, as PMDK has it.
            _ => 1,
        })),
        Name::Class(_) | Name::NewClass => query.class().map(|class| Value::Class(class.into())),
        _ => None,
    }
}

impl From<CtlClass> for ClassValue {
    fn from(class: CtlClass) -> ClassValue {
        let CtlClass { unit_size, alignment, unit_count, header } = class;
        let (units_per_block, header_type) = (unit_count, header_type(header));
        ClassValue { unit_size, alignment, units_per_block, header_type, class_id: 0 }
    }
}
