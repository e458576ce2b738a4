//! The volatile adaptive radix trees blart and congee: what a lookup costs where nothing must survive. And blart beside the
//! floor: the least that a durable insert can cost.

use crate::engine::{Transactions, Tree, fold};
use crate::keys::Keys;
use crate::peers::Floor;
use anyhow::{Context, Result, anyhow};
use std::path::Path;

/// The tree of the crate blart. It refuses a key that begins another, so words go in with their NUL.
#[derive(Default)]
pub(crate) struct Blart {
    map: blart::TreeMap<Box<[u8]>, u64>,
}

impl Blart {
    fn put(&mut self, key: &[u8], id: u64) -> Result<()> {
        self.map.try_insert(key.into(), id).map_err(|error| anyhow!("blart: {error:?}"))?;
        Ok(())
    }
}

impl Tree for Blart {
    fn insert(&mut self, keys: &Keys) -> Result<()> {
        keys.iter_with_nul().try_for_each(|(key, id)| self.put(key, id))
    }

    fn lookup(&self, keys: &Keys) -> Result<u64> {
        let mut digest = 0;
        for (key, _) in keys.iter_with_nul() {
            digest = fold(digest, *self.map.get(key).context("blart lost a key")?);
        }
        Ok(digest)
    }
}

/// blart, and beside each insert the floor of the transaction that makes it durable: a block for key and value, the slot that
/// leads to it, and the bits of the allocator.
pub(crate) struct FlooredBlart {
    tree: Blart,
    floor: Floor,
    slots: u32,
}

impl FlooredBlart {
    /// An empty tree with room for `keys` keys; `touched` brings the pages of the floor in.
    pub(crate) fn create(path: &Path, keys: usize, touched: bool) -> Result<FlooredBlart> {
        let slots = u32::try_from(keys)?;
        Ok(FlooredBlart { tree: Blart::default(), floor: Floor::with_slots(path, slots, touched)?, slots })
    }
}

impl Tree for FlooredBlart {
    fn insert(&mut self, keys: &Keys) -> Result<()> {
        for (key, id) in keys.iter_with_nul() {
            self.tree.put(key, id)?;
            self.floor.replace(&[Keys::number_of(id) % self.slots])?;
        }
        Ok(())
    }

    fn lookup(&self, keys: &Keys) -> Result<u64> {
        self.tree.lookup(keys)
    }
}

/// The tree of the crate congee, for keys of 8 bytes. One guard is held over a whole lap, as its documentation
/// advises.
#[derive(Default)]
pub(crate) struct Congee {
    map: congee::Congee<usize, usize>,
}

impl Tree for Congee {
    fn insert(&mut self, keys: &Keys) -> Result<()> {
        let guard = self.map.pin();
        for (key, id) in keys.iter() {
            let inserted = self.map.insert(number(key)?, id as usize, &guard);
            inserted.map_err(|_| anyhow!("congee is out of memory"))?;
        }
        Ok(())
    }

    fn lookup(&self, keys: &Keys) -> Result<u64> {
        let guard = self.map.pin();
        let mut digest = 0;
        for (key, _) in keys.iter() {
            let value = self.map.get(&number(key)?, &guard).context("congee lost a key")?;
            digest = fold(digest, value as u64);
        }
        Ok(digest)
    }
}

#[inline]
fn number(key: &[u8]) -> Result<usize> {
    Ok(usize::from_be_bytes(key.try_into().context("congee takes keys of 8 bytes")?))
}
