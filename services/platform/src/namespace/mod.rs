//! Namespaces, as described by the labels of a region's modules and by info blocks.
//!
//! ```text
//!   found       a namespace               find             discovers them    space, size    free ranges, valid sizes
//!   parameters  parameters of a new one   create, destroy                    labels, info   their bytes on the modules
//! ```

mod create;
mod destroy;
pub(crate) mod error;
mod find;
mod found;
mod info;
mod labels;
mod mode;
mod parameters;
mod size;
mod space;
mod unlabelled;

pub(crate) use create::usable;
pub use create::{candidates, create};
pub use destroy::{destroy, enable, reconfigure};
pub use error::NamespaceError;
pub(crate) use find::{free_number, info_block_locations, region_labels};
pub use find::{has_labels, labelled_names, names};
pub use found::{Namespace, Personality};
pub(crate) use info::write_at;
pub(crate) use labels::{format_labels, labels_of, put_labels, remove_labels, replace_labels};
pub use labels::{init_labels, label_extent, write_labels};
pub use mode::{MapLocation, Mode};
pub use parameters::CreateNamespace;
pub(crate) use size::{SizeRules, size_rules};
pub(crate) use space::align_over;
pub use space::{free, largest_free, region_align};
