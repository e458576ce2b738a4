//! What a range of a memory map is.

use std::fmt;

/// What a range of a memory map is, in the words of the kernel's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// RAM.
    Usable,
    /// Nobody's.
    Reserved,
    /// RAM that firmware wants to be used for special purposes.
    SoftReserved,
    /// Tables that can be dropped once they were read.
    AcpiData,
    /// What ACPI keeps.
    AcpiNvs,
    /// RAM with errors.
    Unusable,
    /// Persistent memory, of the type that the log names: 7 by firmware, 12 by old firmware or by `memmap=`.
    Persistent(u32),
    /// A type that the kernel has no word for.
    Type(u32),
}

impl MemoryKind {
    /// The kind that a text begins with, with what follows on its line.
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
