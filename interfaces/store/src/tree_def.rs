//! Definitions of trees.

use crate::error::{Error, Kind, Result};
use crate::value::Value;
use lode_index::NamedTree;
use lode_layout::{Key, Malformed};
use std::fmt;
use std::marker::PhantomData;

/// The name of a tree, and the types of its keys and values. Usually a constant.
///
/// # Example
/// ```
/// use lodestone::TreeDef;
///
/// /// Densities in kilograms a cubic metre, by the name of the stone.
/// const DENSITIES: TreeDef<String, u64> = TreeDef::new("densities");
/// /// Samples by site and time.
/// const SAMPLES: TreeDef<(String, i64), Vec<u8>> = TreeDef::new("samples");
/// ```
pub struct TreeDef<'n, K, V> {
    name: &'n str,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'n, K, V> TreeDef<'n, K, V> {
    /// Returns the definition of the tree with this name, 1 to 255 bytes.
    pub const fn new(name: &'n str) -> TreeDef<'n, K, V> {
        TreeDef { name, types: PhantomData }
    }

    /// Returns the name.
    pub const fn name(&self) -> &'n str {
        self.name
    }
}

impl<K: Key, V: Value> TreeDef<'_, K, V> {
    /// Refuses a tree of other types.
    pub(crate) fn check(&self, tree: &NamedTree) -> Result<()> {
        if tree.key_type == K::type_name() && tree.value_type == V::type_name() {
            return Ok(());
        }
        let found = [tree.key_type.clone(), tree.value_type.clone()];
        let want = [K::type_name(), V::type_name()].map(String::from);
        Err(Error::new(Kind::WrongType { found, want }).in_tree(self.name))
    }
}

impl<K, V> Clone for TreeDef<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for TreeDef<'_, K, V> {}

impl<K, V> fmt::Debug for TreeDef<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TreeDef").field(&self.name).finish()
    }
}

/// Decodes a stored key.
pub(crate) fn decode_key<K: Key>(bytes: &[u8]) -> Result<K> {
    K::decode_whole_key(bytes).map_err(malformed_key::<K>)
}

/// Decodes a stored key of bytes that may become its own.
pub(crate) fn decode_owned_key<K: Key>(bytes: Vec<u8>) -> Result<K> {
    K::decode_owned_key(bytes).map_err(malformed_key::<K>)
}

#[cold]
fn malformed_key<K: Key>(cause: Malformed) -> Error {
    malformed("key", K::type_name().into(), cause)
}

/// Decodes a stored value.
pub(crate) fn decode_value<V: Value>(bytes: impl AsRef<[u8]> + Into<Vec<u8>>) -> Result<V> {
    V::decode_owned_value(bytes).map_err(malformed_value::<V>)
}

/// Returns the error of a value that has no encoding, or of bytes that are none.
#[cold]
pub(crate) fn malformed_value<V: Value>(cause: Malformed) -> Error {
    malformed("value", V::type_name().into(), cause)
}

#[cold]
fn malformed(what: &'static str, type_name: String, cause: Malformed) -> Error {
    Error::new(Kind::Malformed { what, type_name, cause })
}
