//! The check of blocks: descriptor, log, map and all contents, without a store.

use crate::census::Census;
use crate::descriptor;
use crate::error::Damage;
use lode_layout::{BlockMapWord, BlocksDescriptor, Geometry};
use lode_pmem::Medium;
use lode_redo::LogArea;

/// Checks the blocks of the pool `uuid`. Returns the damages, at most a thousand: none if they are sound. The traces of a
/// crash are no damage.
///
/// # Cost
/// Reads everything.
pub fn check<M: Medium>(medium: &M, geometry: &Geometry, uuid: &[u8; 16]) -> Vec<Damage> {
    let [(_, first), (second_at, second)] = descriptor::copies(medium, geometry);
    let mut damages: Vec<Damage> = [first, second].iter().filter_map(|copy| copy.err()).collect();
    if let (Ok(first), Ok(second)) = (first, second)
        && first != second
    {
        damages.push(Damage::DescriptorDiffers { at: second_at });
    }
    let Ok(descriptor) = first.or(second) else { return damages };
    damages.extend(lode_redo::check(medium, LogArea::of(geometry), uuid).err().map(Damage::from));
    match Census::take(medium, geometry, uuid, &descriptor) {
        Ok(mut census) => {
            let damage = check_contents(medium, &descriptor, &mut census).err();
            damages.append(&mut census.damages);
            damages.extend(damage);
        }
        Err(damage) => damages.push(damage),
    }
    damages
}

/// Compares each content with its checksum.
fn check_contents<M: Medium>(
    medium: &M,
    descriptor: &BlocksDescriptor,
    census: &mut Census,
) -> Result<(), Damage> {
    let mut content = vec![0; descriptor.block_size as usize];
    census.for_each_word(medium, |census, lba, word| {
        // Other damage of the map was found before.
        if let Ok(Some(word)) = word {
            census.damages.extend(check_content(medium, descriptor, lba, word, &mut content).err());
        }
    })
}

fn check_content<M: Medium>(
    medium: &M,
    descriptor: &BlocksDescriptor,
    lba: u64,
    word: BlockMapWord,
    content: &mut [u8],
) -> Result<(), Damage> {
    let at = descriptor.data_at(word.block);
    medium.memory().reading(|memory| memory.read(at, content))?;
    match crc32c::crc32c(content) == word.crc {
        true => Ok(()),
        false => Err(Damage::Rotten { lba, at, len: content.len() as u64 }),
    }
}
