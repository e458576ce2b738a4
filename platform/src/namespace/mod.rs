//! Namespaces, as described by the labels of a region's modules and by info blocks.

mod check;
mod create;
mod destroy;
mod found;
mod room;
mod space;
mod wanted;

pub use check::SectorTable;
pub use found::{Namespace, Personality};
pub(crate) use room::Room;
pub use wanted::{CreateNamespace, MapPlace, Mode};
