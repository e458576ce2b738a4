//! Memory maps and plans as text.

use super::kind::MemoryKind;
use super::map::MemoryMap;
use super::reservation::{HIGH_MEMORY, Reservation};
use bytesize::ByteSize;
use std::fmt::Write;

impl MemoryMap {
    /// Returns the sums of the map: word and bytes, in a fixed order.
    pub fn totals(&self) -> [(&'static str, u64); 5] {
        use MemoryKind as K;
        [
            ("usable", self.total(|kind| matches!(kind, K::Usable))),
            ("reserved", self.total(|kind| matches!(kind, K::Reserved | K::SoftReserved))),
            ("acpi", self.total(|kind| matches!(kind, K::AcpiData | K::AcpiNvs))),
            ("persistent", self.total(|kind| matches!(kind, K::Persistent(_)))),
            ("other", self.total(|kind| matches!(kind, K::Unusable | K::Type(_)))),
        ]
    }

    /// Formats the map as a table, with a line of sums.
    pub fn listing(&self) -> String {
        let mut text = String::new();
        for range in &self.ranges {
            let (start, last) = (range.start, range.end() - 1);
            let size = ByteSize::b(range.len).to_string();
            let made = if self.from_memmap.contains(range) { ", by memmap=" } else { "" };
            let _ = writeln!(text, "{start:#018x}-{last:#018x} {size:>10}  {}{made}", range.kind);
        }
        let totals = self.totals();
        let totals = totals.iter().filter(|(_, bytes)| *bytes > 0);
        let totals: Vec<_> = totals.map(|(word, bytes)| format!("{word} {}", ByteSize::b(*bytes))).collect();
        format!("{text}{}: {}\n", self.source, totals.join(", "))
    }

    /// Returns the kernel's command line for `planned`, with its existing reservations.
    pub fn command_line(&self, planned: &[Reservation]) -> String {
        let words: Vec<String> = self.arguments(planned).iter().map(ToString::to_string).collect();
        words.join(" ")
    }

    /// Describes the steps for `planned`.
    pub fn advice(&self, planned: &[Reservation]) -> String {
        let words = self.command_line(planned);
        let mut text = String::new();
        for one in planned {
            let (start, last, size) = (one.start, one.end() - 1, ByteSize::b(one.len));
            let _ = writeln!(
                text,
                "{one}: {size} of RAM, {start:#018x}-{last:#018x}, in whole sections of 128 MiB"
            );
        }
        let (ranges, devices) = match planned.len() {
            0 | 1 => ("range", "/dev/pmem0 is".to_owned()),
            count => ("ranges", format!("/dev/pmem0 to /dev/pmem{} are", count - 1)),
        };
        let _ = write!(
            text,
            "\n\
             GRUB, in /etc/default/grub, behind what is there:\n\
             \x20 GRUB_CMDLINE_LINUX=\"{words}\"\n\
             \x20 and then `update-grub`, or `grub2-mkconfig -o /boot/grub2/grub.cfg`\n\
             grubby:\n\
             \x20 grubby --update-kernel=ALL --args='{words}'\n\
             systemd-boot, in /etc/kernel/cmdline or in the line `options` of the entry:\n\
             \x20 {words}\n\
             \n\
             In these files `!` needs no backslash; in a shell put it in single quotes. After the start the kernel lists\n\
             the {ranges} as `persistent (type 12)`, and {devices} there. What is stored in it is lost with the power.\n"
        );
        if !self.from_memmap.is_empty() {
            text += "The command line has a memmap= already, which stays: it is repeated above.\n";
        }
        if planned.iter().any(|one| one.start < HIGH_MEMORY) {
            text += "No RAM from 4 GiB on has the room. Below, a start may fail if the boot loader puts the initrd there.\n";
        }
        text
    }
}
