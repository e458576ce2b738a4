//! Errors of memory maps.

use thiserror::Error;

/// A memory map can't be read, or has too little RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MemoryMapError {
    /// The text contains no memory map.
    #[error(
        "there is no memory map in it: lines like `BIOS-e820: [mem 0x0000000100000000-0x0000000c7fffffff] usable`, or \
         with `user:`, which the kernel prints first of all; `dmesg` may have lost them, `journalctl -k -b` has them"
    )]
    NoMemoryMap,
    /// A range of a memory map ends before its start, or after the last address.
    #[error("line {line}: a range of memory can't go from {start:#x} to {last:#x}")]
    MemoryRange {
        /// The number of the line, from 1.
        line: u64,
        /// Its first byte.
        start: u64,
        /// Its last byte.
        last: u64,
    },
    /// The log lists no RAM of the NUMA node.
    #[error(
        "the log lists no RAM of node {node}{}",
        if *has_nodes { "" } else { ": it has no lines like `ACPI: SRAT: Node 0 PXM 0 [mem 0x00000000-0x7fffffff]`" }
    )]
    UnknownNode {
        /// Number of the node.
        node: u32,
        /// True if the log lists other nodes.
        has_nodes: bool,
    },
    /// The RAM has too few whole sections for the request.
    #[error("{want} bytes of RAM can't be had{}", at_most(*largest))]
    NoRam {
        /// Bytes that were requested.
        want: u64,
        /// Bytes of the largest range that is available.
        largest: u64,
    },
}

fn at_most(largest: u64) -> String {
    match largest {
        0 => ": behind the first GiB no range of it has a whole section of 128M".to_owned(),
        bytes => format!(" in one piece: the largest that would fit is {}M", bytes >> 20),
    }
}
