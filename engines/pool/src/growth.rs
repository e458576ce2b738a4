//! The sizes to which a pool grows by itself.

use crate::PoolError;
use lode_layout::{CHUNK, Geometry, GeometryError, align_up};

/// Fewest bytes by which a pool grows, unless its maximum is nearer.
const STEP_MIN: u64 = 8 * CHUNK;
/// Size of a pool in bytes from which on it grows by an eighth, but at least by half of this size.
const LARGE: u64 = 2 << 30;

/// Returns the reason why a pool with this geometry can't become as large as a request needs.
pub(crate) fn limit_of(geometry: &Geometry, size_max: u64) -> PoolError {
    match geometry.reach() {
        reach if reach < size_max => {
            PoolError::Geometry(GeometryError::ExtentsExhausted { size: size_max, size_max: reach })
        }
        _ => PoolError::Maximum { size_max },
    }
}

/// Plans the growth of a pool to `size` bytes: with a longer log, unless only the space that it takes makes `fits` false.
/// Returns the geometry, and what `fits` says of it.
///
/// # Errors
/// As [`Geometry::grow`].
pub(crate) fn plan(
    geometry: &Geometry,
    size: u64,
    fits: impl Fn(&Geometry) -> bool,
) -> Result<(Geometry, bool), GeometryError> {
    let with_log = geometry.grow_with_log(size)?;
    if fits(&with_log) {
        return Ok((with_log, true));
    }
    let plain = geometry.grow(size)?;
    if fits(&plain) { Ok((plain, true)) } else { Ok((with_log, false)) }
}

/// Returns the sizes to which a pool with this geometry may grow for `wanted` bytes more: the best one first, and the
/// smallest one last. `fits` decides which sizes are enough. None is returned if the largest one is not.
pub(crate) fn next_sizes(
    geometry: &Geometry,
    size_max: u64,
    wanted: u64,
    fits: impl Fn(&Geometry) -> bool,
) -> Vec<u64> {
    let is_enough = |size: &u64| plan(geometry, *size, &fits).is_ok_and(|(_, is_enough)| is_enough);
    let (steps, largest) = steps(geometry, size_max, wanted);
    let sizes: Vec<u64> = steps.filter(&is_enough).collect();
    // What is wanted may take more than estimated.
    if sizes.is_empty() { largest.into_iter().filter(is_enough).collect() } else { sizes }
}

/// Returns the sizes that [`next_sizes`] chooses from, in its order, and the largest size that the pool can have.
fn steps(
    geometry: &Geometry,
    size_max: u64,
    wanted: u64,
) -> (impl Iterator<Item = u64> + use<>, Option<u64>) {
    let size = geometry.size();
    // The new space also takes a chunk table, which may be an extent's 128th part, and perhaps a longer log. What is
    // wanted may not fit in the extent that is lengthened, so it has to fit in the one that is added.
    let tables = (wanted / 128).saturating_add(2 * CHUNK);
    let least = wanted.saturating_add(tables).saturating_add(log_growth(geometry, wanted));
    let least = align_up(least.min(Geometry::SIZE_MAX), CHUNK);
    // A pool that shrank may have a gap where its log was, which takes no space.
    let in_use = geometry.parts_len();
    let step = if in_use < LARGE { in_use / 2 } else { (in_use / 8).max(LARGE / 2) };
    let room = size_max.min(geometry.reach()).saturating_sub(size);
    // The last step takes all that is left, if that is less than what is wanted by this estimate.
    let (least, best) = (least.min(room), align_up(step.max(STEP_MIN), CHUNK).max(least).min(room));
    let halves = std::iter::successors(Some(best), move |step| {
        (*step > least).then(|| align_up((*step / 2).max(least), CHUNK).min(*step - CHUNK).max(least))
    });
    (
        halves.filter(move |_| room >= CHUNK).map(move |step| size + step),
        (room >= CHUNK).then_some(size + room),
    )
}

/// Returns the bytes that a longer log takes if the pool grows for `wanted` bytes.
fn log_growth(geometry: &Geometry, wanted: u64) -> u64 {
    let size = geometry.size().saturating_add(wanted.saturating_mul(2)).min(Geometry::SIZE_MAX);
    if Geometry::log_len_of(size) >= 2 * geometry.log_len() { Geometry::log_len_of(size) } else { 0 }
}

#[cfg(test)]
mod test {
    use super::*;

    fn sizes(geometry: &Geometry, size_max: u64, wanted: u64) -> Vec<u64> {
        next_sizes(geometry, size_max, wanted, |_| true)
    }

    /// A pool of any first size reaches a pebibyte in steps, with extents to spare.
    #[test]
    fn steps_reach_any_size() {
        for first in [64 << 10, 128 << 10, 256 << 10, 1 << 20, 50 << 20, 1 << 30] {
            let mut pool = Geometry::plan(first).unwrap();
            while pool.size() < 1 << 40 {
                let before = pool.size();
                let size = sizes(&pool, Geometry::SIZE_MAX, CHUNK)[0];
                assert!(size > before && size <= (before + before / 2).max(before + STEP_MIN) + CHUNK);
                pool = pool.grow_with_log(size).unwrap();
            }
            assert!(pool.extents().len() <= 20, "{} extents from {first}", pool.extents().len());
            assert!(pool.log_len() > 32 << 20, "a log of {} from {first}", pool.log_len());
            let heap: u64 = pool.extents().iter().map(|extent| extent.len - extent.table_len).sum();
            assert!(heap > pool.size() / 100 * 97, "{heap} of {}", pool.size());
        }
    }

    #[test]
    fn smaller_steps_follow_down_to_what_is_wanted() {
        let pool = Geometry::plan(64 << 20).unwrap();
        let sizes = sizes(&pool, Geometry::SIZE_MAX, 100_000);
        assert_eq!(sizes[0], 96 << 20);
        assert!(sizes.is_sorted_by(|larger, smaller| larger > smaller));
        let least = sizes[sizes.len() - 1] - pool.size();
        assert!((100_000..200_000).contains(&least), "{least}");
        assert!(sizes.iter().all(|size| size.is_multiple_of(CHUNK)));
    }

    #[test]
    fn maximum_ends_growth() {
        let pool = Geometry::plan(1 << 20).unwrap();
        assert_eq!(sizes(&pool, 1 << 20, 1), []);
        assert_eq!(sizes(&pool, 2 << 20, 2 << 20), [2 << 20]);
        assert_eq!(sizes(&pool, Geometry::SIZE_MAX, u64::MAX), [Geometry::SIZE_MAX]);
        assert_eq!(next_sizes(&pool, 2 << 20, 1, |_| false), []);
        let fits = |new: &Geometry| new.size() > 20 << 20;
        assert_eq!(next_sizes(&pool, 32 << 20, 1, fits), [32 << 20], "more than the estimate");
        assert!(matches!(limit_of(&pool, 2 << 20), PoolError::Maximum { size_max } if size_max == 2 << 20));
        assert_eq!(sizes(&pool, (1 << 20) + CHUNK, 1), [(1 << 20) + CHUNK]);
        assert_eq!(sizes(&pool, (1 << 20) + 4 * CHUNK, CHUNK)[0], (1 << 20) + 4 * CHUNK);
    }

    /// A pool with all its extents in use grows as far as the table of the last one reaches.
    #[test]
    fn extents_end_growth() {
        let mut pool = Geometry::plan(64 << 10).unwrap();
        while let Ok(grown) = pool.grow(pool.size() + (32 << 20)) {
            pool = grown;
        }
        let reach = pool.reach();
        assert!(sizes(&pool, Geometry::SIZE_MAX, CHUNK).into_iter().all(|size| size <= reach));
        assert!(matches!(
            limit_of(&pool, Geometry::SIZE_MAX),
            PoolError::Geometry(GeometryError::ExtentsExhausted { size_max, .. }) if size_max == reach
        ));
        let full = pool.grow(reach).unwrap();
        assert_eq!(sizes(&full, Geometry::SIZE_MAX, CHUNK), []);
    }

    /// The log stays where it is if only the space that a longer one takes is missing.
    #[test]
    fn log_yields_to_request() {
        let pool = Geometry::plan(128 << 10).unwrap();
        let longest = |geometry: &Geometry| {
            let extents = geometry.extents().iter();
            extents.map(|extent| extent.len - extent.table_len).max().unwrap()
        };
        let (with_log, without) = (pool.grow_with_log(1 << 20).unwrap(), pool.grow(1 << 20).unwrap());
        assert!(longest(&with_log) < longest(&without));
        let plan_for = |wanted| plan(&pool, 1 << 20, |geometry| longest(geometry) >= wanted).unwrap();
        assert_eq!(plan_for(longest(&with_log)), (with_log, true));
        assert_eq!(plan_for(longest(&without)), (without, true));
        assert_eq!(plan_for(longest(&without) + 1), (with_log, false));
    }
}
