//! Values of settings in `PMEMOBJ_CONF` and in the file that `PMEMOBJ_CONF_FILE` names.

use super::name::{Access, Name};
use super::{ClassValue, Value, set};
use crate::pool::OpenPool;
use lode_capi_entry::{CtlQuery, Failure, Variable, ctl_words, read_variables};

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
        Failure::invalid(format!("{value} is no value of {name}"))
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
            leading_integer(text).and_then(|number| i32::try_from(number).ok()).map(Value::Int)
        }
        Name::CacheSize | Name::CacheThreshold => leading_integer(text).map(Value::Long),
        Name::Granularity => {
            leading_integer(text).and_then(|number| u64::try_from(number).ok()).map(Value::Word)
        }
        Name::ArenasDefaultMax | Name::ThreadArena => {
            leading_integer(text).and_then(|number| u32::try_from(number).ok()).map(Value::Unsigned)
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
        Name::Class(_) | Name::NewClass => class(text),
        _ => None,
    }
}

/// Returns the class of a text `UNIT,ALIGNMENT,UNITS,HEADER`. Parts after these are left out.
fn class(text: &[u8]) -> Option<Value> {
    let mut words = ctl_words(text, b',');
    let [unit_size, alignment, units] =
        [words.next()?, words.next()?, words.next()?].map(|word| u64::try_from(leading_integer(word)?).ok());
    let header = match words.next()? {
        b"legacy" => 0,
        b"compact" => 1,
        b"none" => 2,
        _ => return None,
    };
    Some(Value::Class(ClassValue {
        unit_size: unit_size?,
        alignment: alignment?,
        units_per_block: u32::try_from(units?).ok()?,
        header_type: header,
        class_id: 0,
    }))
}

/// Returns the number at the start of a text, as strtoll(3) with base 0 reads it; `None` if there is none, or it is too large.
fn leading_integer(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii_start();
    let (is_negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (base, digits) = match rest {
        [b'0', b'x' | b'X', digits @ ..] if digits.first().is_some_and(u8::is_ascii_hexdigit) => (16, digits),
        [b'0', ..] => (8, rest),
        _ => (10, rest),
    };
    let len = digits.iter().take_while(|byte| (**byte as char).is_digit(base)).count();
    let value = i128::from_str_radix(std::str::from_utf8(&digits[..len]).ok()?, base).ok()?;
    i64::try_from(if is_negative { -value } else { value }).ok()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn integers_are_read_as_strtoll_does() {
        for (text, value) in [
            ("5", Some(5)),
            ("-5", Some(-5)),
            ("1K", Some(1)),
            (" 0x10 ", Some(16)),
            ("010", Some(8)),
            ("0", Some(0)),
            ("0x", Some(0)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("x", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(leading_integer(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn classes_have_four_parts() {
        let class_of = |text: &str| match class(text.as_bytes()) {
            Some(Value::Class(class)) => Some(class),
            _ => None,
        };
        let compact = class_of("500,0,1000,compact,x").unwrap();
        assert_eq!((compact.unit_size, compact.units_per_block, compact.header_type), (500, 1000, 1));
        assert_eq!(class_of("500,0,1000,none").map(|class| class.header_type), Some(2));
        for text in ["500,0,1000", "500,0,1000,foo", "x,0,1,none", "-1,0,1,none"] {
            assert_eq!(class_of(text), None, "{text}");
        }
    }
}
