//! File systems whose files lie on other machines.

/// Returns the name of the network file system that `statfs` calls by this number (linux/magic.h). Other machines may
/// map its files too, and see neither this one's stores nor its locks.
pub(crate) fn network_file_system(magic: u32) -> Option<&'static str> {
    match magic {
        0x0000_6969 => Some("NFS"),
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
        0x00c3_6400 => Some("CephFS"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x7375_7245 => Some("Coda"),
        0x0102_1997 => Some("9P"),
        0x7461_636f => Some("OCFS2"),
        0x0116_1970 => Some("GFS2"),
        0x0bd0_0bd0 => Some("Lustre"),
        _ => None,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn network_file_systems_are_told_apart() {
        for (magic, name) in [
            (0x6969, "NFS"),
            (0xff53_4d42, "SMB"),
            (0xfe53_4d42, "SMB"),
            (0x00c3_6400, "CephFS"),
            (0x0102_1997, "9P"),
        ] {
            assert_eq!(network_file_system(magic), Some(name));
        }
        // ext4, XFS, Btrfs, tmpfs, FUSE.
        for magic in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x6573_5546] {
            assert_eq!(network_file_system(magic), None, "{magic:#x}");
        }
    }
}
