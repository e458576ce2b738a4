//! A pool as its parts are, looked at without opening it: damage is part of the answer.

use crate::chain::{Starts, check_headers};
use crate::error::{PmdkError, SetError};
use crate::file_kind::FileKind;
use crate::locked_part::read_what_is_there;
use crate::part_node::read_view;
use crate::pool_set::{Part, PoolSet, Replica};
use crate::replica_content::ranges;
use crate::set_size::size_min;
use lode_layout::{BLOCK, PmdkKind, PmdkPartHeader};
use lode_pmem::Sysfs;
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A pool that was looked at. Nothing was locked, so it may be in use.
#[derive(Debug)]
pub struct Inspection {
    set: PoolSet,
    kind: Option<PmdkKind>,
    parts: Vec<InspectedPart>,
    fault: Option<PmdkError>,
    descriptor: Option<[u8; BLOCK as usize]>,
}

/// A part of a pool that was looked at.
#[derive(Debug)]
pub struct InspectedPart {
    /// The number of its replica, from 0.
    pub replica: usize,
    /// The file or device-DAX node.
    pub path: PathBuf,
    /// Its bytes; `None` if it can't be opened.
    pub size: Option<u64>,
    /// Its header; `None` if a part in its place has none.
    pub header: Option<PmdkPartHeader>,
    /// The reason why it can't be used.
    pub fault: Option<PmdkError>,
}

impl Inspection {
    /// Looks at the pool of a set file, or of a single file or device-DAX node, at `path`.
    ///
    /// # Errors
    /// [`PmdkError`] if the set file can't be read or breaks a rule. What is wrong with the parts is no error.
    ///
    /// # Cost
    /// Two reads of 4 KiB for the first part, one for each other one with a header.
    pub fn read(path: &Path, sysfs: &Sysfs) -> Result<Inspection, PmdkError> {
        let set = PoolSet::read(path, sysfs)?;
        let (mut kind, mut descriptor) = (None, None);
        let mut parts: Vec<InspectedPart> = Vec::new();
        let mut starts: Vec<Starts> = Vec::new();
        for (replica, of) in set.replicas.iter().enumerate() {
            let mut of_replica = Starts::new();
            for (nth, part) in of.parts.iter().enumerate() {
                let path = part.path.clone();
                let mut inspected = InspectedPart { replica, path, size: None, header: None, fault: None };
                match inspected.look(part, nth < set.header_count(of)) {
                    Ok(Some(start)) => {
                        if parts.is_empty() {
                            kind = PmdkKind::of_signature(&*start.header);
                            descriptor = Some(start.descriptor);
                        }
                        of_replica.push((part.path.clone(), start.header));
                    }
                    Ok(None) => {}
                    Err(error) => inspected.fault = Some(error),
                }
                if let (None, Some(found)) = (&inspected.fault, inspected.size)
                    && found != part.size
                {
                    let path = part.path.clone();
                    inspected.fault = Some(PmdkError::PartSize { path, want: part.size, found });
                }
                parts.push(inspected);
            }
            starts.push(of_replica);
        }
        let is_sound = parts.iter().all(|part| part.fault.is_none());
        let fault = kind.filter(|_| is_sound).and_then(|kind| fault(&set, kind, &starts));
        Ok(Inspection { set, kind, parts, fault, descriptor })
    }

    /// Returns the library of the pool, by the signature of its first part; `None` if that is no pool of PMDK.
    pub fn kind(&self) -> Option<PmdkKind> {
        self.kind
    }

    /// Returns true if there is a set file.
    pub fn is_set(&self) -> bool {
        self.set.is_set
    }

    /// Returns the set file, or the only part.
    pub fn path(&self) -> &Path {
        &self.set.path
    }

    /// Returns the replicas, the master first.
    pub fn replicas(&self) -> &[Replica] {
        &self.set.replicas
    }

    /// Returns the bytes that the pool has: those of its smallest replica.
    ///
    /// # Errors
    /// [`PmdkError::Set`] if the parts are too large together.
    pub fn size(&self) -> Result<u64, PmdkError> {
        self.set.net_size()
    }

    /// Returns the places of a byte of the pool: of each replica that has it, the master first, the part and the offset in it. The
    /// parts lie back to back behind the first header.
    pub fn places_of(&self, off: u64) -> Vec<(&Path, u64)> {
        let place = |replica: &'_ Replica| {
            let found = ranges(&self.set, replica).into_iter().enumerate();
            let (part, place) = found.into_iter().find(|(_, place)| place.range.contains(&off))?;
            Some((part, place.at(off)))
        };
        let all = self.set.replicas.iter();
        all.filter_map(|replica| place(replica).map(|(part, at)| (replica.parts[part].path(), at))).collect()
    }

    /// Returns the parts, those of the master first.
    pub fn parts(&self) -> &[InspectedPart] {
        &self.parts
    }

    /// Returns the header of the first part, if it is sound.
    pub fn header(&self) -> Option<&PmdkPartHeader> {
        self.parts.first().and_then(|part| part.header.as_ref())
    }

    /// Returns the first fault between the parts, which are sound one by one.
    pub fn fault(&self) -> Option<&PmdkError> {
        self.fault.as_ref()
    }

    /// Returns the page after the header of the first part: the descriptor of its library.
    pub fn descriptor(&self) -> Option<&[u8; BLOCK as usize]> {
        self.descriptor.as_ref()
    }

    /// Returns all faults, those of parts first.
    pub fn faults(&self) -> impl Iterator<Item = &PmdkError> {
        self.parts.iter().filter_map(|part| part.fault.as_ref()).chain(&self.fault)
    }
}

/// The first bytes of a part with a header.
struct Start {
    header: Box<[u8; PmdkPartHeader::LEN]>,
    descriptor: [u8; BLOCK as usize],
}

impl InspectedPart {
    /// Reads size and header. The kernel has told the size of a node.
    fn look(&mut self, part: &Part, has_header: bool) -> Result<Option<Start>, PmdkError> {
        let path = self.path.clone();
        // Looked at before it is opened: the open of a pipe waits.
        let kind = FileKind::find(&path)?;
        let file = File::open(&path).map_err(PmdkError::io("open", &path))?;
        let metadata = file.metadata().map_err(PmdkError::io("fstat", &path))?;
        self.size = Some(if kind == FileKind::File { metadata.len() } else { part.size });
        if !has_header {
            return Ok(None);
        }
        let header: [u8; PmdkPartHeader::LEN] = read_at(&file, &path, 0)?;
        match PmdkPartHeader::decode(&header) {
            Ok(decoded) => self.header = Some(decoded),
            Err(error) => self.fault = Some(PmdkError::Header { path: path.clone(), error }),
        }
        Ok(Some(Start { header: Box::new(header), descriptor: read_at(&file, &path, BLOCK)? }))
    }
}

/// Returns the first fault between parts without a fault of their own, whose headers are these, by replica.
fn fault(set: &PoolSet, kind: PmdkKind, starts: &[Starts]) -> Option<PmdkError> {
    if let Some(empty) = starts.iter().position(Vec::is_empty) {
        let directory = set.replicas[empty].directories().next().unwrap_or(&set.path);
        return Some(PmdkError::set(&set.path)(SetError::Empty(directory.to_owned())));
    }
    if starts.len() > 1 && kind != PmdkKind::Objects {
        return Some(PmdkError::set(&set.path)(SetError::Replicas));
    }
    let (found, min) = match set.check_reserved() {
        Ok(found) => (found, size_min(kind)),
        Err(error) => return Some(error),
    };
    if found < min {
        return Some(PmdkError::TooSmall { path: set.path.clone(), found, min });
    }
    check_headers(starts, kind, set.has_single_header).err()
}

/// Reads `N` bytes at an offset of a file or device-DAX node, as far as there are so many; the rest are zeros.
fn read_at<const N: usize>(file: &File, path: &Path, off: u64) -> Result<[u8; N], PmdkError> {
    let mut bytes = [0; N];
    let metadata = file.metadata().map_err(PmdkError::io("fstat", path))?;
    if metadata.file_type().is_char_device() {
        read_view(file.try_clone().map_err(PmdkError::io("dup", path))?, path, off, &mut bytes)?;
    } else {
        read_what_is_there(file, path, off, &mut bytes)?;
    }
    Ok(bytes)
}
