//! A pool as its parts are, looked at without opening it: damage is part of the answer.

use crate::chain::check_chain;
use crate::error::{PmdkError, SetError};
use crate::locked_part::read_at;
use crate::pool::{check_set, size_min};
use crate::pool_set::{PoolSet, Replica};
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
        let mut parts = Vec::new();
        for (replica, of) in set.replicas.iter().enumerate() {
            for (nth, part) in of.parts.iter().enumerate() {
                let has_header = nth < set.header_count(of);
                let mut inspected =
                    InspectedPart { replica, path: part.path.clone(), size: None, header: None, fault: None };
                match inspected.look(has_header) {
                    Ok(Some(first)) if parts.is_empty() => {
                        (kind, descriptor) = (first.kind, Some(first.descriptor))
                    }
                    Ok(_) => {}
                    Err(error) => inspected.fault = Some(error),
                }
                if let (None, Some(found)) = (&inspected.fault, inspected.size)
                    && found != part.size
                {
                    inspected.fault =
                        Some(PmdkError::PartSize { path: part.path.clone(), want: part.size, found });
                }
                parts.push(inspected);
            }
        }
        let fault = fault(&set, kind, &parts);
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

/// What a part with a header begins with.
struct Start {
    kind: Option<PmdkKind>,
    descriptor: [u8; BLOCK as usize],
}

impl InspectedPart {
    /// Reads size and header.
    fn look(&mut self, has_header: bool) -> Result<Option<Start>, PmdkError> {
        let path = self.path.clone();
        let metadata = path.metadata().map_err(PmdkError::io("open", &path))?;
        let kind = metadata.file_type();
        // Looked at before it is opened: the open of a pipe waits.
        if !kind.is_file() && !kind.is_char_device() {
            return Err(PmdkError::NotAFile { path });
        }
        let file = File::open(&path).map_err(PmdkError::io("open", &path))?;
        self.size = kind.is_file().then(|| metadata.len());
        if !has_header {
            return Ok(None);
        }
        let bytes: [u8; PmdkPartHeader::LEN] = read_at(&file, &path, 0)?;
        let start = Start { kind: PmdkKind::of_signature(&bytes), descriptor: read_at(&file, &path, BLOCK)? };
        match PmdkPartHeader::decode(&bytes) {
            Ok(header) => self.header = Some(header),
            Err(error) => self.fault = Some(PmdkError::Header { path, error }),
        }
        Ok(Some(start))
    }
}

/// Returns the first fault between parts without a fault of their own.
fn fault(set: &PoolSet, kind: Option<PmdkKind>, parts: &[InspectedPart]) -> Option<PmdkError> {
    let kind = kind.filter(|_| parts.iter().all(|part| part.fault.is_none()))?;
    let headers = |replica: usize| {
        let of = parts.iter().filter(move |part| part.replica == replica);
        of.filter_map(|part| Some((part.path.clone(), part.header?))).collect()
    };
    let headers: Vec<Vec<_>> = (0..set.replicas.len()).map(headers).collect();
    if let Some(empty) = headers.iter().position(Vec::is_empty) {
        let directory = set.replicas[empty].directories().next().unwrap_or(&set.path);
        return Some(PmdkError::set(&set.path)(SetError::Empty(directory.to_owned())));
    }
    let other = headers.iter().flatten().find(|(_, header)| header.kind != kind);
    if let Some((path, header)) = other {
        return Some(PmdkError::Kind { path: path.clone(), want: kind, found: header.kind });
    }
    let checked = check_set(set, kind).and_then(|()| set.check_sizes(size_min(kind)));
    checked.and_then(|_| check_chain(&headers, set.has_single_header)).err()
}
