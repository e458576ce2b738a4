//! Requests of pmem2_map_new(3): the configuration and the source are checked in PMDK's order, so that the same call gets
//! the same code.

use crate::code;
use crate::config::Config;
use crate::failure::Failure;
use crate::granularity::Granularity;
use crate::source::{Source, page};
use lode_pmem::{ProgramAccess, ProgramView, Sysfs};
use std::io;

/// A mapping that may be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) view: ProgramView<'static>,
    /// The alignment that the source needs, in bytes.
    pub(crate) align: usize,
    /// Bytes of the pages of the mapping.
    pub(crate) held_len: usize,
    pub(crate) required: Granularity,
}

impl Plan {
    /// Checks a request.
    pub(crate) fn of(config: &Config, source: &Source, sysfs: &Sysfs) -> Result<Plan, Failure> {
        let required = config.required.ok_or_else(|| {
            let text = "please define the max granularity requested for the mapping; call \
                        pmem2_config_set_required_store_granularity first";
            Failure::new(code::GRANULARITY_NOT_SET, text)
        })?;
        let align = source.alignment(sysfs)?;
        let source_len = source.len(sysfs)?;
        if !config.offset.is_multiple_of(align) {
            let text = format!("offset is not a multiple of {align}: {}; align it", config.offset);
            return Err(Failure::new(code::OFFSET_UNALIGNED, text));
        }
        if config.is_private && source.open().is_some_and(|open| open.is_node) {
            let text = "device DAX does not support mapping with MAP_PRIVATE; use PMEM2_SHARED";
            return Err(Failure::new(code::SRC_DEVDAX_PRIVATE, text));
        }
        check_range(config, source_len, align)?;
        let is_anonymous = source.open().is_none();
        let offset = if is_anonymous { 0 } else { config.offset };
        let len = if config.len == 0 { source_len - offset } else { config.len };
        let held_len = len.checked_next_multiple_of(page()).ok_or_else(|| {
            Failure::of_call("mmap MAP_ANONYMOUS", &io::Error::from_raw_os_error(libc::ENOMEM))
        })?;
        let content = source.content(offset as u64);
        let view = ProgramView { content, len, access: config.access, is_private: config.is_private };
        Ok(Plan { view, align, held_len, required })
    }
}

/// Checks that the range lies in the source.
fn check_range(config: &Config, source_len: usize, align: usize) -> Result<(), Failure> {
    if source_len == 0 {
        let text = "file length is equal 0; extend the file first";
        return Err(Failure::new(code::SOURCE_EMPTY, text));
    }
    if !config.len.is_multiple_of(align) {
        let text = format!("length is not a multiple of {align}: {}; round it up", config.len);
        return Err(Failure::new(code::LENGTH_UNALIGNED, text));
    }
    let range = |text: String| Err(Failure::new(code::MAP_RANGE, text));
    match config.offset.checked_add(config.len) {
        None => range("overflow of offset and length; choose smaller ones".into()),
        Some(end) if end > source_len => range(format!(
            "mapping larger than file size: it ends at {end} of {source_len} bytes; extend the file, or map less"
        )),
        Some(_) => Ok(()),
    }
}

/// Returns the failure of a mapping that the kernel refused.
pub(crate) fn refused(source: &Source, access: ProgramAccess, error: &io::Error) -> Failure {
    let failure = Failure::of_call("mmap", error);
    match error.raw_os_error() {
        Some(libc::EACCES) => {
            let name = source.open().map(|open| open.name()).unwrap_or_default();
            let mode = if access.write { "O_RDWR" } else { "O_RDONLY" };
            let remedy = format!("open {name} with {mode}, or set another protection");
            Failure::of_call_with("mmap", error, &remedy).with_code(code::NO_ACCESS)
        }
        Some(libc::EOPNOTSUPP) => failure.with_code(code::NOSUPP),
        _ => failure,
    }
}

/// Returns the granularity of a mapping. `forced` is PMEM2_FORCE_GRANULARITY's; `is_direct` is true if the kernel accepted
/// MAP_SYNC; `is_flushable` if the CPU has an instruction that makes stores durable.
pub(crate) fn granularity(
    plan: &Plan,
    source: &Source,
    forced: Option<Granularity>,
    is_direct: bool,
    is_flushable: bool,
    sysfs: &Sysfs,
) -> Granularity {
    let open = match source.open() {
        Some(open) if !plan.view.is_private => open,
        // No power failure is survived, so there is nothing to do.
        _ => return Granularity::Byte,
    };
    match forced {
        Some(forced) => forced,
        None if !is_direct => Granularity::Page,
        None => Granularity::of_direct(open.backing(sysfs).report().durability, is_flushable),
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::node_fixture::node;
    use std::fs;

    fn config() -> Config {
        Config { required: Some(Granularity::Page), ..Config::new() }
    }

    #[test]
    fn nodes_need_their_alignment() {
        let (_root, sysfs, source) = node(&[]);
        let plan = Plan::of(&config(), &source, &sysfs).unwrap();
        assert_eq!((plan.view.len, plan.align, plan.held_len), (4 << 20, 2 << 20, 4 << 20));
        let with = |offset: usize, len: usize| Config { offset, len, ..config() };
        for (config, wanted) in [
            (with(4096, 0), code::OFFSET_UNALIGNED),
            (with(0, 4096), code::LENGTH_UNALIGNED),
            (with(2 << 20, 4 << 20), code::MAP_RANGE),
            (Config { is_private: true, ..config() }, code::SRC_DEVDAX_PRIVATE),
            (Config { required: None, ..config() }, code::GRANULARITY_NOT_SET),
        ] {
            assert_eq!(Plan::of(&config, &source, &sysfs).unwrap_err().code, wanted);
        }
    }

    #[test]
    fn damaged_attributes_have_codes() {
        for (name, value, wanted) in [
            ("size", "x\n", code::INVALID_SIZE_FORMAT),
            ("size", "\n", code::INVALID_SIZE_FORMAT),
            ("align", "-1\n", code::INVALID_ALIGNMENT_FORMAT),
            ("align", "3000\n", code::INVALID_ALIGNMENT_VALUE),
            ("align", "0\n", code::INVALID_ALIGNMENT_VALUE),
        ] {
            let (_root, sysfs, source) = node(&[(name, value)]);
            assert_eq!(Plan::of(&config(), &source, &sysfs).unwrap_err().code, wanted, "{name} {value}");
        }
        let (root, sysfs, source) = node(&[]);
        fs::remove_file(root.path().join("dev/char/1:5")).unwrap();
        assert_eq!(Plan::of(&config(), &source, &sysfs).unwrap_err().code, -libc::ENOENT);
    }

    #[test]
    fn granularity_is_found() {
        use Granularity::{Byte, CacheLine, Page};
        let (root, sysfs, source) = node(&[]);
        let plan = Plan::of(&config(), &source, &sysfs).unwrap();
        let found = |forced, is_direct, is_flushable| {
            granularity(&plan, &source, forced, is_direct, is_flushable, &sysfs)
        };
        assert_eq!(
            [found(None, true, true), found(None, true, false), found(None, false, true)],
            [CacheLine, Page, Page]
        );
        assert_eq!([found(Some(Byte), false, true), found(Some(Page), true, true)], [Byte, Page]);
        fs::write(root.path().join("devices/ndbus0/region3/persistence_domain"), "cpu_cache\n").unwrap();
        assert_eq!(found(None, true, true), Byte);
        let memory = Source::Anonymous { len: 1 };
        let plan = Plan::of(&config(), &memory, &sysfs).unwrap();
        assert_eq!(granularity(&plan, &memory, Some(Page), false, true, &sysfs), Byte);
    }
}
