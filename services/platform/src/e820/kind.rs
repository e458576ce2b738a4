//! Type of a range of a memory map.

use std::fmt;

/// Type of a range of a memory map, in the words of the kernel's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// RAM.
    Usable,
    /// Reserved.
    Reserved,
    /// Specific-purpose RAM (EFI_MEMORY_SP).
    SoftReserved,
    /// ACPI tables, which can be reclaimed after they are read.
    AcpiData,
    /// ACPI non-volatile storage.
    AcpiNvs,
    /// RAM with errors.
    Unusable,
    /// Persistent memory, with the type number in the log: 7 from firmware, 12 from old firmware or `memmap=`.
    Persistent(u32),
    /// A type without a word in the kernel.
    Type(u32),
}

impl MemoryKind {
    /// Parses a type and returns the rest of the line.
    pub(super) fn parse(text: &str) -> Option<MemoryKind> {
        use MemoryKind as K;
        let words = [
            ("usable", K::Usable),
            ("System RAM", K::Usable),
            ("soft reserved", K::SoftReserved),
            ("reserved", K::Reserved),
            ("ACPI data", K::AcpiData),
            ("ACPI NVS", K::AcpiNvs),
            ("unusable", K::Unusable),
        ];
        let number = |prefix| {
            let digits = text.strip_prefix(prefix)?;
            let end = digits.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(digits.len());
            digits[..end].parse().ok()
        };
        if let Some(number) = number("persistent (type ") {
            return Some(K::Persistent(number));
        }
        let word = words.into_iter().find(|(word, _)| text.to_lowercase().starts_with(&word.to_lowercase()));
        word.map(|(_, kind)| kind).or_else(|| number("type ").map(K::Type))
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryKind::Usable => f.write_str("usable"),
            MemoryKind::Reserved => f.write_str("reserved"),
            MemoryKind::SoftReserved => f.write_str("soft reserved"),
            MemoryKind::AcpiData => f.write_str("ACPI data"),
            MemoryKind::AcpiNvs => f.write_str("ACPI NVS"),
            MemoryKind::Unusable => f.write_str("unusable"),
            MemoryKind::Persistent(number) => write!(f, "persistent (type {number})"),
            MemoryKind::Type(number) => write!(f, "type {number}"),
        }
    }
}
