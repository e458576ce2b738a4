//! Typed pools as a layout: every object has one owner, and the types say where the owners are.

use crate::layout::{Layout, Trace};
use lode_heap::{Brand, Heap, Persist, visit_owned_by};
use lode_layout::PoolOffset;
use lode_pmem::Medium;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The layout of typed pools whose root is a `T`. A check looks for damaged pointers, objects with two owners and
/// leaks. A repair leaves the objects alone.
///
/// ```
/// # use lode_heap::{Access, CreateOptions, LayoutName, OpenOptions, PCell, Persist, Durability, TypedPool};
/// # use lode_fsck::{TypedLayout, check_pool};
/// # use std::sync::Arc;
/// lode_heap::brand!(Shelf);
///
/// #[derive(Persist)]
/// #[persist(brand = Shelf)]
/// #[repr(C)]
/// struct Root {
///     count: PCell<u64, Shelf>,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shelf.pool");
/// # let options = CreateOptions { durability: Some(Durability::None), ..CreateOptions::new(1 << 20, LayoutName::new("shelf")?) };
/// # let pool = TypedPool::<Shelf>::create(&path, &options)?;
/// # pool.root_or_init(|_| Ok(Root { count: PCell::new(1) }))?;
/// # pool.close()?;
/// let view = lode_pool::map_unchecked(&path, &OpenOptions::new(Access::ReadOnly))?;
/// let report = check_pool(Arc::new(view), &[&TypedLayout::<Root, Shelf>::new("shelf")]);
/// assert!(report.is_clean() && report.traced, "{report}");
/// # Ok(())
/// # }
/// ```
pub struct TypedLayout<T, B> {
    name: &'static str,
    root: PhantomData<fn() -> (T, B)>,
}

impl<T: Persist<B>, B: Brand> TypedLayout<T, B> {
    /// Returns the layout with this name.
    pub const fn new(name: &'static str) -> TypedLayout<T, B> {
        TypedLayout { name, root: PhantomData }
    }
}

impl<T: Persist<B>, B: Brand, M: Medium> Layout<M> for TypedLayout<T, B> {
    fn name(&self) -> &str {
        self.name
    }

    fn trace(&self, heap: &Heap<Arc<M>>, root: PoolOffset, trace: &mut Trace<'_>) -> bool {
        match trace.object_info(root) {
            Some((_, type_number)) if type_number == T::TYPE_NUMBER => {}
            Some(_) => {
                trace.damage(
                    "the root",
                    root,
                    "it has another type than this layout's, so nothing is traced",
                );
                return false;
            }
            None => {
                trace.damage("the root", root, "no object is there");
                return false;
            }
        }
        let mut is_whole = trace.object("the root", root);
        if is_whole {
            visit_owned_by::<T, B, Arc<M>>(heap, root, &mut |found| match found {
                Ok(at) => trace.object("the object that a pointer leads to", at),
                Err(fault) => {
                    trace.damage("the range", fault.at, "it can't be read");
                    is_whole = false;
                    false
                }
            });
        }
        is_whole
    }
}

impl<T, B> fmt::Debug for TypedLayout<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed").field("name", &self.name).finish()
    }
}
