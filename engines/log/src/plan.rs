//! The area of a new log in a pool.

use crate::error::AppendLogError;
use lode_layout::{BLOCK, Geometry, LogDescriptor, align_down};

/// Plans a log that takes all of the first extent of a new pool.
///
/// # Errors
/// Fails if there is no room.
pub(crate) fn plan(geometry: &Geometry, key: [u64; 2]) -> Result<LogDescriptor, AppendLogError> {
    let extent = &geometry.extents()[0];
    let area_off = LogDescriptor::place(extent).plus(BLOCK);
    let rest = extent.end().get().saturating_sub(area_off.get());
    match align_down(rest, LogDescriptor::AREA_UNIT) {
        ..LogDescriptor::AREA_LEN_MIN => Err(AppendLogError::NoRoom { size: geometry.size() }),
        area_len => Ok(LogDescriptor { area_off, area_len, key }),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn plans_are_valid() {
        for size in [64 << 10, 256 << 10, 1 << 20, 1 << 30, 1 << 40] {
            let geometry = Geometry::plan(size).expect("the size is valid");
            let planned = plan(&geometry, [1, 2]).expect("there is room");
            let extent = &geometry.extents()[0];
            assert_eq!(LogDescriptor::decode(planned.encode(), extent), Ok(planned));
            assert_eq!(planned.area_off.get() + planned.area_len, extent.end().get());
        }
    }
}
