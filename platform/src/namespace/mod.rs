//! Namespaces: what the labels of a region's modules and the first blocks of its media say.

mod check;
mod create;
mod destroy;
mod found;
mod space;

pub use check::SectorTable;
pub use create::{CreateNamespace, MapPlace, Mode};
pub use found::{Namespace, Personality};
