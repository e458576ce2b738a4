//! The check of blocks: descriptor, log, map and all contents, without a store.

use crate::census::Census;
use crate::descriptor;
use crate::error::Damage;
use crate::segments::{Segments, places};
use lode_layout::{BlockMapWord, Geometry};
use lode_pmem::Medium;
use lode_redo::LogArea;

/// Checks the blocks of the pool `uuid`. Returns the damages, at most a thousand: none if they are sound. The traces of a
/// crash are no damage.
///
/// # Cost
/// Reads everything.
pub fn check<M: Medium>(medium: &M, geometry: &Geometry, uuid: &[u8; 16]) -> Vec<Damage> {
    let mut damages = Vec::new();
    let segments = match Segments::read(medium, geometry) {
        Ok(segments) => segments,
        Err(damage) => return vec![damage],
    };
    for place in places(geometry, &segments) {
        let [(_, first), (second_at, second)] = descriptor::copies(medium, place);
        damages.extend([first, second].iter().filter_map(|copy| copy.err()));
        if let (Ok(first), Ok(second)) = (first, second)
            && first != second
        {
            damages.push(Damage::DescriptorDiffers { at: second_at });
        }
    }
    damages.extend(lode_redo::check(medium, LogArea::of(geometry), uuid).err().map(Damage::from));
    match Census::take(medium, geometry, uuid, &segments) {
        Ok(mut census) => {
            let damage = check_contents(medium, &segments, &mut census).err();
            damages.append(&mut census.damages);
            damages.extend(damage);
        }
        Err(damage) => damages.push(damage),
    }
    damages
}

/// Compares each content with its checksum.
fn check_contents<M: Medium>(medium: &M, segments: &Segments, census: &mut Census<'_>) -> Result<(), Damage> {
    let mut content = vec![0; segments.block_size() as usize];
    census.for_each_word(medium, |census, lba, word| {
        match word {
            Ok(Some(word)) => {
                census.damages.extend(check_content(medium, segments, lba, word, &mut content).err());
            }
            Err(lost @ Damage::Lost { .. }) => census.damages.push(lost),
            // Other damage of the map was found before.
            Ok(None) | Err(_) => {}
        }
    })
}

fn check_content<M: Medium>(
    medium: &M,
    segments: &Segments,
    lba: u64,
    word: BlockMapWord,
    content: &mut [u8],
) -> Result<(), Damage> {
    let at = segments.data_at(word.block);
    medium.memory().reading(|memory| memory.read(at, content))?;
    match lode_pmem::crc32c(content) == word.crc {
        true => Ok(()),
        false => Err(Damage::Rotten { lba, at, len: content.len() as u64 }),
    }
}
