//! Namespaces: what the labels of a region's modules and the first blocks of its media say.

mod create;
mod destroy;
mod found;
mod space;

pub use create::{CreateNamespace, MapPlace, Mode};
pub use found::{Namespace, Personality};
