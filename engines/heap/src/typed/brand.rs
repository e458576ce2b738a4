//! Brands: the marker types by which the compiler tells pools apart.

/// The marker type of a pool. Made by [`brand!`](crate::brand).
pub trait Brand: Sized + Send + Sync + 'static {}

/// Declares the brand of a pool: a type that every pointer, cell and lock in the pool names. Code that mixes in those
/// of a pool of another brand does not compile. Several pools of one brand can be open: a transaction or guard of one refuses what
/// lies in another with [`HeapError::OtherPool`](crate::HeapError::OtherPool), where it would store or follow a pointer.
///
/// ```
/// lode_heap::brand!(
///     /// The pool that keeps the accounts.
///     pub Bank
/// );
/// ```
#[macro_export]
macro_rules! brand {
    ($(#[$attribute:meta])* $visibility:vis $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name;
        impl $crate::Brand for $name {}
    };
}
