//! The two layouts of pools with keys and values: one tree, or trees with names.

use crate::error::KvError;
use crate::store::Store;
use lode_heap::OpenError;
use lode_index::StoreLayout;
use lode_layout::LayoutName;
use lode_pool::PoolError;

/// Opens a pool by `open`, which expects a layout: `kv` or `store`, whichever the pool has. With another layout the error
/// names `expected` as the one that was wanted.
pub(crate) fn open_either<T, E>(
    expected: LayoutName,
    open: impl Fn(LayoutName) -> Result<T, E>,
) -> Result<T, KvError>
where
    KvError: From<E>,
{
    let other = if expected == named() { Store::layout_name() } else { named() };
    match open(expected).map_err(KvError::from) {
        Err(error) if found(&error) == Some(&other) => Ok(open(other)?),
        opened => opened,
    }
}

/// Returns the layout name `store`, that of trees with names.
pub(crate) fn named() -> LayoutName {
    LayoutName::new(StoreLayout::NAME).expect("a layout name")
}

/// Returns the layout that was found in place of the expected one.
pub(crate) fn found(error: &KvError) -> Option<&LayoutName> {
    match error {
        KvError::Pool(OpenError::Pool(error)) => match error.cause() {
            PoolError::Layout { found, .. } => Some(found),
            _ => None,
        },
        _ => None,
    }
}
