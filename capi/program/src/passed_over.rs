//! The libraries whose flushes need no word to us.

use std::path::Path;

/// Names before the version. The C library's copies go past the cache if they are long, and flush nothing; those of PMDK flush pools of
/// objects by way of the log, but for libpmem2, which knows nothing of them.
const NAMES: [&str; 12] = [
    "libc",
    "libm",
    "libmvec",
    "libpthread",
    "libdl",
    "librt",
    "libpmem",
    "libpmemlog",
    "libpmemblk",
    "libpmemobj",
    "libpmempool",
    "ld",
];

/// Returns true if the code of the file needs no look: the C library, the loader, and the libraries of PMDK by their names.
pub fn is_passed_over(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    // libc.so.6, libc-2.31.so, ld-linux-x86-64.so.2, ld-2.31.so.
    let Some((stem, version)) = name.split_once(".so") else { return false };
    if !(version.is_empty() || version.starts_with('.')) {
        return false;
    }
    let of_version = stem.split_once('-').filter(|(_, rest)| {
        rest.starts_with("linux") || rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    });
    NAMES.contains(&of_version.map_or(stem, |(stem, _)| stem))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        for name in [
            "libc.so.6",
            "libc-2.31.so",
            "libm.so.6",
            "ld-linux-x86-64.so.2",
            "ld-linux-aarch64.so.1",
            "ld-2.31.so",
            "libpmem.so.1",
            "libpmem.so.1.0.0",
            "libpmemobj.so.1",
            "libpmempool.so",
            "libpthread.so.0",
        ] {
            assert!(is_passed_over(&Path::new("/usr/lib").join(name)), "{name}");
        }
        for name in [
            "libcrypto.so.3",
            "libpmem2.so.1",
            "libc++.so.1",
            "libpmemkv.so.1",
            "libpmemobj-cpp.so",
            "ld",
            "libc",
            "libm.sound",
            "program",
            "libc-client.so.2007",
            "libcap.so.2",
            "python3",
        ] {
            assert!(!is_passed_over(&Path::new("/usr/lib").join(name)), "{name}");
        }
    }
}
