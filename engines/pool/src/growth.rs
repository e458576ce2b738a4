//! The sizes to which a pool grows by itself.

use crate::PoolError;
use lode_layout::{CHUNK, Geometry, align_up};

/// Fewest bytes by which a pool grows, unless its maximum is nearer.
const STEP_MIN: u64 = 8 * CHUNK;
/// Size of a pool in bytes from which on it grows by an eighth, but at least by half of this size.
const LARGE: u64 = 2 << 30;

/// Returns the sizes to which a pool with this geometry may grow for `wanted` bytes more, in one span: the best one
/// first, and the smallest one last.
///
/// # Errors
/// [`PoolError::Maximum`] if the pool can't grow so far.
pub(crate) fn next_sizes(
    geometry: &Geometry,
    size_max: u64,
    wanted: u64,
) -> Result<impl Iterator<Item = u64> + use<>, PoolError> {
    let size = geometry.size();
    // The new space also takes a chunk table, which may be an extent's 128th part, and perhaps a longer log. What is
    // wanted may not fit in the extent that is lengthened, so it has to fit in the one that is added.
    let tables = (wanted / 128).saturating_add(2 * CHUNK);
    let least = wanted.saturating_add(tables).saturating_add(log_growth(geometry, wanted));
    let least = align_up(least.min(Geometry::SIZE_MAX), CHUNK);
    let step = if size < LARGE { size / 2 } else { (size / 8).max(LARGE / 2) };
    let room = size_max.saturating_sub(size);
    // The last step takes all that is left, if that is less than what is wanted by this estimate.
    let (least, best) = (least.min(room), align_up(step.max(STEP_MIN), CHUNK).max(least).min(room));
    if room < CHUNK || wanted > room {
        return Err(PoolError::Maximum { size_max });
    }
    let halves = std::iter::successors(Some(best), move |step| {
        (*step > least).then(|| align_up((*step / 2).max(least), CHUNK).min(*step - CHUNK).max(least))
    });
    Ok(halves.map(move |step| size + step))
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
        next_sizes(geometry, size_max, wanted).unwrap().collect()
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
        let maximum = |size_max, wanted| match next_sizes(&pool, size_max, wanted) {
            Err(PoolError::Maximum { size_max }) => size_max,
            Err(error) => panic!("{error}"),
            Ok(sizes) => panic!("{:?}", sizes.collect::<Vec<_>>()),
        };
        assert_eq!(maximum(1 << 20, 1), 1 << 20);
        assert_eq!(maximum(2 << 20, 2 << 20), 2 << 20);
        assert_eq!(maximum(Geometry::SIZE_MAX, u64::MAX), Geometry::SIZE_MAX);
        assert_eq!(sizes(&pool, (1 << 20) + CHUNK, 1), [(1 << 20) + CHUNK]);
        assert_eq!(sizes(&pool, (1 << 20) + 4 * CHUNK, CHUNK)[0], (1 << 20) + 4 * CHUNK);
    }
}
