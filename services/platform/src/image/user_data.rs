//! Data of a namespace as its user sees it, in any mode: read, compared, and written to another namespace or a file.

use super::file_system::data_range;
use super::flatten::each_part;
use super::import::copy_around;
use super::layout::ImageLayout;
use super::new_file;
use super::sectors::{Sectors, TakePart};
use super::target::Window;
use crate::directory::{Media, Staged};
use crate::error::PlatformError;
use crate::file::error::FileError;
use crate::file::progress::CopyProgress;
use crate::file::sparse;
use crate::namespace::Namespace;
use crate::region::Region;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::path::Path;

/// Bytes that a digest takes at once: the smallest sector.
const GRAIN: usize = 512;

/// Digest of a user's data. Zeros at any place, also past the end, change nothing, so that holes and larger copies have
/// the digest of the original.
#[derive(Clone, Debug)]
struct UserDigest {
    sum: Sha256,
    /// The grain that is being collected, and its offset.
    grain: [u8; GRAIN],
    off: u64,
}

impl UserDigest {
    fn new() -> UserDigest {
        UserDigest { sum: Sha256::new(), grain: [0; GRAIN], off: 0 }
    }

    /// Adds bytes at this offset. Offsets ascend.
    fn add(&mut self, mut off: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let into = (off % GRAIN as u64) as usize;
            let start = off - into as u64;
            if start != self.off {
                self.close_grain();
                self.off = start;
            }
            let len = bytes.len().min(GRAIN - into);
            self.grain[into..into + len].copy_from_slice(&bytes[..len]);
            (off, bytes) = (off + len as u64, &bytes[len..]);
        }
    }

    fn close_grain(&mut self) {
        if self.grain.iter().any(|byte| *byte != 0) {
            self.sum.update(self.off.to_le_bytes());
            self.sum.update(self.grain);
            self.grain.fill(0);
        }
    }

    /// Returns the digest as hexadecimal digits.
    fn text(mut self) -> String {
        self.close_grain();
        self.sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Calls `take` with each part of a namespace's data that is no hole, and its offset, in ascending order.
///
/// # Errors
/// Fails if data can't be read, with the error of `take`, or if the user stops.
fn each_user_part(
    media: &mut Media,
    (region, namespace): (&Region, &Namespace),
    progress: &mut CopyProgress<'_>,
    take: TakePart<'_>,
) -> Result<(), PlatformError> {
    let Some(range) = data_range(namespace) else {
        return match Sectors::open(media, region, namespace)? {
            Some(sectors) => sectors.each_part(media, progress, take),
            None => Ok(()),
        };
    };
    // The check includes holes: media errors must not become zeros.
    media.check(region, range.clone())?;
    let mut at = range.start;
    let mut part = Vec::new();
    while let Some(start) = media.next_data(region, at..range.end)? {
        part.resize((range.end - start).min(sparse::PART) as usize, 0);
        media.read(region, start, &mut part)?;
        take(start - range.start, &part)?;
        let end = start + part.len() as u64;
        progress.advance(end - at)?;
        at = end;
    }
    Ok(progress.advance(range.end - at)?)
}

/// Returns the digest of a namespace's data.
///
/// # Errors
/// Those of [`each_user_part`].
pub(crate) fn user_digest(
    media: &mut Media,
    of: (&Region, &Namespace),
    progress: &mut CopyProgress<'_>,
) -> Result<String, PlatformError> {
    let mut digest = UserDigest::new();
    each_user_part(media, of, progress, &mut |off, bytes| {
        digest.add(off, bytes);
        Ok(())
    })?;
    Ok(digest.text())
}

/// Returns the digest of the data in a file.
///
/// # Errors
/// Fails if a system call fails, or if the user stops.
pub(crate) fn file_digest(path: &Path, progress: &mut CopyProgress<'_>) -> Result<String, PlatformError> {
    let reading = |error| FileError { what: "reading", path: path.to_owned(), error };
    let file = File::open(path).map_err(reading)?;
    let len = file.metadata().map_err(reading)?.len();
    let mut digest = UserDigest::new();
    each_part(&file, path, 0..len, progress, |off, bytes| {
        digest.add(off, bytes);
        Ok(())
    })?;
    Ok(digest.text())
}

/// Writes a namespace's data to a new file, which gets its name when it is complete. Returns its digest.
///
/// # Errors
/// Those of [`each_user_part`]. Fails also if the file exists, or can't be written.
///
/// # Durability
/// The file is durable under its name when this returns.
pub(crate) fn export_user_data(
    media: &mut Media,
    of: (&Region, &Namespace),
    path: &Path,
    progress: &mut CopyProgress<'_>,
) -> Result<String, PlatformError> {
    let new = new_file::create(path, ImageLayout::without_labels(of.1.usable()).file_len())?;
    let mut digest = UserDigest::new();
    each_user_part(media, of, progress, &mut |off, bytes| {
        digest.add(off, bytes);
        sparse::fill(new.file(), off, bytes).map_err(|error| FileError {
            what: "writing",
            path: path.to_owned(),
            error,
        })
    })?;
    new_file::publish(new, path)?;
    Ok(digest.text())
}

/// Writes the data of another namespace, or of a file, to staged copies of a namespace's modules. Returns its digest.
/// The rest of the namespace becomes zeros.
///
/// # Errors
/// Fails if the data can't be read, if a system call fails, or if the user stops.
pub(crate) fn fill_user_data(
    media: &mut Media,
    from: Source<'_>,
    (region, namespace): (&Region, &Namespace),
    staged: &mut Staged,
    progress: &mut CopyProgress<'_>,
) -> Result<String, PlatformError> {
    let mut digest = UserDigest::new();
    if let Some(range) = data_range(namespace) {
        let window = Window { region: region.clone(), range: range.clone(), image_off: 0 };
        copy_around(staged, media, &window, progress)?;
        let staged = &*staged;
        from.each_part(media, progress, &mut |off, bytes| {
            digest.add(off, bytes);
            // A file is a multiple of some MiB, padded with zeros.
            let inside = (range.end - range.start).saturating_sub(off).min(bytes.len() as u64);
            staged.fill(region, range.start + off, &bytes[..inside as usize])
        })?;
        return Ok(digest.text());
    }
    let nothing = Window { region: region.clone(), range: namespace.offset..namespace.offset, image_off: 0 };
    copy_around(staged, media, &nothing, progress)?;
    // The sectors are written through the BTT, in the order of its map, from a file.
    let path = staged.folder().join("user-data");
    let failed = |error| FileError { what: "writing", path: path.clone(), error };
    let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
    from.each_part(media, progress, &mut |off, bytes| {
        digest.add(off, bytes);
        sparse::fill(&file, off, bytes).map_err(failed)
    })?;
    if let Some(sectors) = Sectors::open(media, region, namespace)? {
        sectors.write(media, staged, &file, &path, progress)?;
    }
    Ok(digest.text())
}

/// The origin of data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    /// A namespace.
    Namespace(&'a Region, &'a Namespace),
    /// A file.
    File(&'a Path),
}

impl Source<'_> {
    fn each_part(
        self,
        media: &mut Media,
        progress: &mut CopyProgress<'_>,
        take: TakePart<'_>,
    ) -> Result<(), PlatformError> {
        match self {
            Source::Namespace(region, namespace) => {
                each_user_part(media, (region, namespace), progress, take)
            }
            Source::File(path) => {
                let reading = |error| FileError { what: "reading", path: path.to_owned(), error };
                let file = File::open(path).map_err(reading)?;
                let len = file.metadata().map_err(reading)?.len();
                each_part(&file, path, 0..len, progress, take)
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn digest(parts: &[(u64, &[u8])]) -> String {
        let mut digest = UserDigest::new();
        parts.iter().for_each(|(off, bytes)| digest.add(*off, bytes));
        digest.text()
    }

    #[test]
    fn digest_depends_on_content_and_not_on_its_parts() {
        let whole: Vec<u8> = (0..2000_u32).map(|number| (number % 251) as u8).collect();
        let same = digest(&[(100, &whole)]);
        assert_eq!(digest(&[(100, &whole[..7]), (107, &whole[7..1500]), (1600, &whole[1500..])]), same);
        assert_eq!(digest(&[(100, &whole), (1 << 20, &[0; 5000])]), same, "zeros are holes");
        assert_eq!(digest(&[(0, &[0; 100]), (100, &whole)]), same);
        assert_ne!(digest(&[(101, &whole)]), same, "another place");
        assert_ne!(digest(&[(100, &whole[..1999])]), same);
        let mut changed = whole.clone();
        changed[1234] ^= 1;
        assert_ne!(digest(&[(100, &changed)]), same);
        assert_eq!(digest(&[]), digest(&[(512, &[0; 512])]));
    }
}
