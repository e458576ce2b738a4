//! The volatile adaptive radix trees blart and congee: what a lookup costs where nothing must survive.

use crate::engine::{Tree, fold};
use crate::keys::Keys;
use anyhow::{Context, Result, anyhow};

/// The tree of the crate blart. It refuses a key that begins another, so words go in with their NUL.
#[derive(Default)]
pub(crate) struct Blart {
    map: blart::TreeMap<Box<[u8]>, u64>,
}

impl Tree for Blart {
    fn insert(&mut self, keys: &Keys) -> Result<()> {
        for (key, id) in keys.iter_with_nul() {
            self.map.try_insert(key.into(), id).map_err(|error| anyhow!("blart: {error:?}"))?;
        }
        Ok(())
    }

    fn lookup(&self, keys: &Keys) -> Result<u64> {
        let mut digest = 0;
        for (key, _) in keys.iter_with_nul() {
            digest = fold(digest, *self.map.get(key).context("blart lost a key")?);
        }
        Ok(digest)
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
