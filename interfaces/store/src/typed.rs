//! Typed pools: objects of the program's own types in a file or on persistent memory, read by load and changed by transactions.
//!
//! [`TypedStore`] is a typed pool with named trees beside its objects. All else is of the crate `lode-heap`, whose
//! [documentation](lode_heap) has the guide; this is how a program has it that depends on `lodestone-store` alone. Types derive
//! [`trait@Persist`] and [`trait@CellValue`], which find these paths by themselves.
//!
//! ```
//! use lodestone::typed::{CreateOptions, Durability, LayoutName, PCell, PHashMap, Persist, TypedPool};
//!
//! lodestone::typed::brand!(Shop);
//!
//! #[derive(Persist)]
//! #[persist(brand = Shop)]
//! #[repr(C)]
//! struct Root {
//!     stock: PHashMap<u32, u32, Shop>,
//!     sold: PCell<u64, Shop>,
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.pool");
//! # let path = path.as_path();
//! let options = CreateOptions {
//!     durability: Some(Durability::Commit),
//!     ..CreateOptions::new(1 << 20, LayoutName::new("shop")?)
//! };
//! let pool = TypedPool::<Shop>::create(path, &options)?;
//! let shop = pool.root_or_init(|_| Ok(Root { stock: PHashMap::new(), sold: PCell::new(0) }))?;
//! // Both, or neither, after a crash.
//! pool.run(|tx| {
//!     shop.stock.insert(tx, 7, 12)?;
//!     shop.sold.set(tx, 1)
//! })?;
//! assert_eq!(shop.stock.load(&pool.guard(), 7)?, Some(12));
//! # Ok(())
//! # }
//! ```

pub use crate::typed_store::TypedStore;
pub use crate::typed_transaction::TypedTransaction;
pub use lode_heap::{
    Access, Brand, CellValue, CreateOptions, Durability, Guard, HeapError, LayoutName, Migrate, Migrated,
    OpenError, OpenOptions, Owned, PBox, PCell, PDeque, PHashMap, PMutex, PString, PVec, Persist, TypedHeap,
    TypedPool, TypedTx, brand,
};
#[doc(hidden)]
pub use lode_heap::{Owners, bits, migration, type_hash, types};
pub use lode_index::{MapKey, MapRange, MapRangeIn, PMap};
