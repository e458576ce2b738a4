//! What must hold in every interleaving.

mod allocator;
mod log;
mod pins;
mod versions;
mod yielding;
