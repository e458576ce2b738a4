//! The place that a user asks for, in words.

use super::error::LocateError;
use std::path::PathBuf;

/// A place that a user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// A physical address.
    Address(u64),
    /// A sector of a namespace's device.
    Sector {
        /// Name of the device or of the namespace.
        device: String,
        /// Sector of 512 bytes.
        sector: u64,
    },
    /// The bad blocks of a namespace.
    BadBlocks {
        /// Name of the device or of the namespace.
        device: String,
    },
    /// A byte of a file.
    Byte {
        /// The file.
        path: PathBuf,
        /// Offset in bytes.
        offset: u64,
    },
}

impl Query {
    /// Reads `ADDRESS`, `DEVICE:SECTOR`, `DEVICE` or `FILE:OFFSET`. Numbers are decimal, or hexadecimal after `0x`. A word
    /// before the colon is a device if it is called as the kernel calls those of namespaces, in /dev or without a folder.
    ///
    /// # Errors
    /// [`NoPlace`](LocateError::NoPlace).
    pub fn parse(text: &str) -> Result<Query, LocateError> {
        let none = || LocateError::NoPlace { text: text.to_owned() };
        if let Some(address) = number(text) {
            return Ok(Query::Address(address));
        }
        let device = |word: &str| {
            let name = word.strip_prefix("/dev/").unwrap_or(word);
            is_device(name).then(|| name.to_owned())
        };
        if let Some(device) = device(text) {
            return Ok(Query::BadBlocks { device });
        }
        let (place, offset) = text.rsplit_once(':').ok_or_else(none)?;
        let offset = number(offset).ok_or_else(none)?;
        match device(place) {
            Some(device) => Ok(Query::Sector { device, sector: offset }),
            None if place.is_empty() => Err(none()),
            None => Ok(Query::Byte { path: PathBuf::from(place), offset }),
        }
    }

    /// Reads a byte of a file again, as an object: `FILE:NUMBER:OFFSET`, of which `NUMBER:OFFSET` is the identifier (OID) of an
    /// object of libpmemobj. `None` if it has no number. A file may be called so, too: the caller has looked for it.
    pub fn as_object(&self) -> Option<(PathBuf, [u64; 2])> {
        let Query::Byte { path, offset } = self else { return None };
        let (path, pool) = path.to_str()?.rsplit_once(':').filter(|(path, _)| !path.is_empty())?;
        Some((PathBuf::from(path), [number(pool)?, *offset]))
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = |text: &str, radix| {
        let plain = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_alphanumeric());
        plain.then(|| u64::from_str_radix(text, radix).ok()).flatten()
    };
    match text.strip_prefix("0x") {
        Some(hex) => digits(hex, 16),
        None => digits(text, 10),
    }
}

/// Returns true for pmemN, pmemN.M and these with s, namespaceN.M and daxN.M.
fn is_device(name: &str) -> bool {
    let numbers = |text: &str, most: usize| {
        let numbers: Vec<&str> = text.split('.').collect();
        numbers.len() <= most
            && numbers.iter().all(|part| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let pair = |text: &str| text.contains('.') && numbers(text, 2);
    if let Some(rest) = name.strip_prefix("pmem") {
        return numbers(rest.strip_suffix('s').unwrap_or(rest), 2);
    }
    name.strip_prefix("namespace").or(name.strip_prefix("dax")).is_some_and(pair)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn places_are_read() {
        let sector = |device: &str, sector| Query::Sector { device: device.to_owned(), sector };
        let byte = |path: &str, offset| Query::Byte { path: PathBuf::from(path), offset };
        for (text, query) in [
            ("0x1c0000000", Query::Address(0x1_c000_0000)),
            ("4096", Query::Address(4096)),
            ("pmem0:8", sector("pmem0", 8)),
            ("/dev/pmem1.2s:0x10", sector("pmem1.2s", 16)),
            ("namespace0.0:1", sector("namespace0.0", 1)),
            ("dax1.0", Query::BadBlocks { device: "dax1.0".to_owned() }),
            ("./pmem0:8", byte("./pmem0", 8)),
            ("/mnt/a:b:7", byte("/mnt/a:b", 7)),
            ("pmem0p1:8", byte("pmem0p1", 8)),
            ("pmem:8", byte("pmem", 8)),
        ] {
            assert_eq!(Query::parse(text).unwrap(), query, "{text}");
        }
        let object = |text: &str| Query::parse(text).unwrap().as_object();
        assert_eq!(object("/mnt/a:0x10:0x3c0550"), Some((PathBuf::from("/mnt/a"), [16, 0x3c_0550])));
        for text in ["/mnt/a:7", "/mnt/a:b:7", "a::7", "pmem0:8"] {
            assert_eq!(object(text), None, "{text}");
        }
        for text in ["", "file", ":8", "file:", "file:-1", "0x", "0x1c0000000:", "file:99999999999999999999"]
        {
            assert!(Query::parse(text).is_err(), "{text}");
        }
    }
}
