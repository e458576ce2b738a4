//! The form of machine files: each section and field, for the template and the manual page.

/// A section of a machine file.
#[derive(Clone, Copy, Debug)]
pub struct FormSection {
    /// Its header, as `[[module]]`; empty for the fields before the first header.
    pub header: &'static str,
    /// Meaning of the section.
    pub text: &'static str,
    /// True if a machine may lack it.
    pub optional: bool,
    /// Its fields.
    pub fields: &'static [FormField],
}

/// A field of a machine file.
#[derive(Clone, Copy, Debug)]
pub struct FormField {
    /// Its name.
    pub name: &'static str,
    /// An example, or the default if the field is optional.
    pub value: &'static str,
    /// True if the field may be left out.
    pub optional: bool,
    /// Meaning of the field.
    pub text: &'static str,
}

const fn required(name: &'static str, value: &'static str, text: &'static str) -> FormField {
    FormField { name, value, optional: false, text }
}

const fn optional(name: &'static str, value: &'static str, text: &'static str) -> FormField {
    FormField { name, value, optional: true, text }
}

/// The sections of machine files with their fields.
pub const FORM: [FormSection; 11] = [
    FormSection {
        header: "",
        text: "The machine.",
        optional: false,
        fields: &[
            required("name", "\"my-server\"", "Name of the machine."),
            optional(
                "alignment",
                "\"1GiB\"",
                "Unit of the capacity that firmware gives to goals: a power of two from 1MiB.",
            ),
            optional(
                "firmware_activation",
                "\"reset\"",
                "When staged firmware of modules can be activated: \"reset\" at a start, \"suspend\" or \"live\".",
            ),
        ],
    },
    FormSection {
        header: "[profile]",
        text: "Versions of the tools and the kernel, which decide on output and rounding.",
        optional: false,
        fields: &[
            required("ipmctl", "3", "Generation of ipmctl: 1 for 01.x, 2 for 02.x, 3 for 03.x."),
            required("ndctl", "76", "Version of ndctl and daxctl, from 64."),
            required("kernel", "\"6.1\"", "Version of Linux, major and minor."),
            optional(
                "persistence_domain",
                "\"memory_controller\"",
                "What power loss spares: \"cpu_cache\", \"memory_controller\" or \"unknown\".",
            ),
        ],
    },
    FormSection {
        header: "[[module]]",
        text: "A persistent memory module, one section for each, in the order in which the kernel numbers them.",
        optional: true,
        fields: &[
            required(
                "handle",
                "0x0001",
                "Handle (ipmctl: DimmID). Digits from the right: slot, channel, controller, socket; the rest is the node. Unique.",
            ),
            required("physical_id", "0x0026", "Its number in the SMBIOS tables."),
            required("locator", "\"CPU1_DIMM_A2\"", "Name of the slot (DeviceLocator)."),
            required(
                "capacity",
                "\"126.375GiB\"",
                "Raw capacity: a multiple of 64KiB below 4PiB. Firmware keeps 256MiB of it. Only a module that is Non-functional may lack it.",
            ),
            required(
                "id",
                "\"8089-a2-1942-000011c4\"",
                "Identity (ipmctl: DimmUID): vendor, location, date, serial number in hexadecimal digits; or vendor and serial number. Unique. Only a module that is Non-functional may lack it.",
            ),
            optional("firmware", "\"02.02.00.1553\"", "Version of its firmware [default: none]."),
            optional("part_number", "\"NMA1XXD128GPS\"", "The manufacturer's part number [default: none]."),
            optional(
                "health",
                "\"Healthy\"",
                "\"Healthy\", \"Noncritical failure\", \"Critical failure\", \"Fatal failure\" or \"Non-functional\", which is a dead module.",
            ),
            optional(
                "security",
                "\"Disabled\"",
                "\"Disabled\", \"Unlocked\", \"Locked\", \"Frozen\" or \"Not supported\".",
            ),
            optional(
                "label_area",
                "\"128KiB\"",
                "Size of its label storage area: 1KiB to 256MiB, a multiple of 256B.",
            ),
        ],
    },
    FormSection {
        header: "[module.sensors]",
        text: "Sensors of the module above.",
        optional: true,
        fields: &[
            optional("media_celsius", "33", "Temperature of the media."),
            optional("controller_celsius", "35", "Temperature of the controller."),
            optional("remaining_percent", "100", "Remaining life of the media, up to 100."),
            optional(
                "latched_dirty_shutdowns",
                "0",
                "Power losses before the module had finished, while the latch was set.",
            ),
            optional("unlatched_dirty_shutdowns", "0", "The same without the latch."),
            optional("power_on_seconds", "0", "Time with power in total."),
            optional("up_seconds", "0", "Time since the last power-on."),
            optional("power_cycles", "0", "Power cycles before the machine was made."),
            optional("firmware_errors", "0", "Number of firmware errors."),
        ],
    },
    FormSection {
        header: "[[dram]]",
        text: "A DRAM module, one section for each.",
        optional: true,
        fields: &[
            required("socket", "0", "The socket, from 0."),
            required("physical_id", "0x0025", "Its number in the SMBIOS tables."),
            required("locator", "\"CPU1_DIMM_A1\"", "Name of the slot."),
            required("capacity", "\"32GiB\"", "Capacity: whole MiB, below 4PiB."),
        ],
    },
    FormSection {
        header: "[[memmap]]",
        text: "DRAM that the kernel uses as persistent memory, by memmap=SIZE!START on its command line.",
        optional: true,
        fields: &[
            required("start", "\"4GiB\"", "First physical address: a multiple of 16MiB."),
            required("size", "\"1GiB\"", "Size: a multiple of 16MiB."),
        ],
    },
    FormSection {
        header: "[[soft_reserved]]",
        text: "Memory that firmware reserves for applications (EFI_MEMORY_SP). The kernel shows it as character devices that can be divided.",
        optional: true,
        fields: &[
            required("start", "\"8GiB\"", "First physical address: a multiple of 2MiB."),
            required("size", "\"2GiB\"", "Size: a multiple of 2MiB."),
        ],
    },
    FormSection {
        header: "[[cxl.bridge]]",
        text: "A CXL host bridge. `lode cxl` lists the CXL memory of a machine, and makes regions of it.",
        optional: true,
        fields: &[
            required("id", "12", "Its number in firmware's tables (ACPI _UID). Unique."),
            optional("socket", "0", "The socket, from 0."),
        ],
    },
    FormSection {
        header: "[[cxl.switch]]",
        text: "A CXL switch, below a host bridge or below a switch that the file has before.",
        optional: true,
        fields: &[
            required("name", "\"sw0\"", "Its name. Unique."),
            required(
                "bridge",
                "12",
                "The host bridge above it; or else switch, the name of the switch above it.",
            ),
        ],
    },
    FormSection {
        header: "[[cxl.device]]",
        text: "A CXL memory device (type 3), in the order in which the kernel numbers them.",
        optional: true,
        fields: &[
            required("serial", "\"0x00000000fe1a0b22\"", "Serial number: up to 16 hexadecimal digits."),
            required(
                "switch",
                "\"sw0\"",
                "The switch above it; or else bridge, the number of the host bridge above it.",
            ),
            optional(
                "volatile",
                "\"0B\"",
                "Volatile memory: a multiple of 256MiB. A device has volatile or persistent memory, or both.",
            ),
            required("persistent", "\"512MiB\"", "Persistent memory: a multiple of 256MiB [default: 0B]."),
            optional(
                "label_area",
                "\"128KiB\"",
                "Size of its label storage area: 1KiB to 256MiB, a multiple of 256B.",
            ),
            optional("firmware", "\"1.0\"", "Version of its firmware [default: none]."),
            optional(
                "partition_alignment",
                "\"0B\"",
                "Unit in which `lode cxl set-partition` divides its capacity anew: a multiple of 256MiB. 0B if it can't.",
            ),
            optional("decoders", "4", "Number of regions that it can join at once: 1, 2, 4, 6, 8 or 10."),
        ],
    },
    FormSection {
        header: "[[cxl.window]]",
        text: "A range of physical addresses for regions of CXL memory.",
        optional: true,
        fields: &[
            required("size", "\"4GiB\"", "Size: a multiple of 256MiB for each bridge."),
            required(
                "bridges",
                "[12]",
                "The host bridges that it interleaves: 1, 2, 3, 4, 6, 8, 12 or 16 ids.",
            ),
            optional(
                "granularity",
                "\"256B\"",
                "Bytes on one bridge before the next: a power of two, 256B to 16KiB.",
            ),
            required("persistent", "true", "True if it takes persistent memory [default: false]."),
            optional(
                "volatile",
                "false",
                "True if it takes volatile memory. A window takes one of both, or both.",
            ),
            optional("accelerator", "false", "True if it takes memory of accelerators (type 2), too."),
        ],
    },
];

/// Widest line of a comment, in columns.
const WIDTH: usize = 100;

/// Returns a machine file with each section, and a comment for each field. Optional fields stand in comments, with
/// their defaults.
pub fn template() -> String {
    let mut text = String::from(
        "# A machine with persistent memory, for `lode platform init FILE.toml`.\n\
         # Sizes are numbers with B, KiB, MiB, GiB or TiB. Remove the # before a field to set it.\n",
    );
    for section in FORM {
        text += "\n";
        comment(
            &mut text,
            &format!("{}{}", section.text, if section.optional { " May be left out." } else { "" }),
        );
        if !section.header.is_empty() {
            text += &format!("{}\n", section.header);
        }
        for field in section.fields {
            comment(&mut text, field.text);
            text += &format!("{}{} = {}\n", if field.optional { "#" } else { "" }, field.name, field.value);
        }
    }
    text
}

/// Adds comment lines with these words.
fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split(' ') {
        if line.len() + 1 + word.len() > WIDTH {
            *text += &format!("{line}\n");
            line = String::from("#");
        }
        line += &format!(" {word}");
    }
    *text += &format!("{line}\n");
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::machine::{CxlPort, Machine, MachineError, Sensors};

    #[test]
    fn template_is_a_machine_and_optional_fields_are_their_defaults() {
        let machine = Machine::parse(&template()).unwrap();
        assert_eq!((machine.modules.len(), machine.dram.len(), machine.memmap.len()), (1, 1, 1));
        assert_eq!(machine.modules[0].sensors, Sensors::default());
        assert_eq!(machine.cxl.devices[0].above, CxlPort::Switch("sw0".to_owned()));
        let all = template().replace("\n#", "\n# ").replace("\n#  ", "\n# ");
        let all: Vec<&str> = all
            .lines()
            .map(|line| {
                let field = line.strip_prefix("# ").filter(|rest| rest.split(' ').nth(1) == Some("="));
                field.unwrap_or(line)
            })
            .collect();
        let mut set = Machine::parse(&all.join("\n")).unwrap();
        assert_eq!(set.modules[0].firmware.as_deref(), Some("02.02.00.1553"));
        // Fields without a default.
        set.modules[0].firmware = None;
        set.modules[0].part_number = None;
        set.cxl.devices[0].firmware = None;
        assert_eq!(set, machine);
    }

    /// The parser names the fields that it knows: the form has the same.
    #[test]
    fn form_has_all_fields_that_the_parser_knows() {
        for section in FORM {
            let mut text = template();
            let at = match section.header {
                "" => 0,
                header => text.find(&format!("\n{header}\n")).unwrap() + header.len() + 2,
            };
            text.insert_str(at, "unheard_of = 1\n");
            let Err(MachineError::Syntax { message, .. }) = Machine::parse(&text) else { panic!("{text}") };
            let known = message.split('`').skip(3).step_by(2);
            let known: Vec<&str> = known
                .filter(|name| {
                    !matches!(
                        *name,
                        "profile" | "module" | "dram" | "memmap" | "soft_reserved" | "cxl" | "sensors"
                    )
                })
                .collect();
            let told = |name: &str| {
                section
                    .fields
                    .iter()
                    .any(|field| field.name == name || field.text.contains(&format!("or else {name},")))
            };
            assert!(
                !known.is_empty() && known.iter().all(|name| told(name)),
                "{}: {known:?}",
                section.header
            );
            assert!(
                section.fields.iter().all(|field| known.contains(&field.name)),
                "{}: {known:?}",
                section.header
            );
        }
    }

    #[test]
    fn invalid_cxl_is_located() {
        let text = template();
        for (from, to, said) in [
            ("switch = \"sw0\"", "switch = \"sw1\"", "the switch can't be sw1"),
            ("switch = \"sw0\"", "switch = \"sw0\"\nbridge = 12", "either bridge or switch"),
            ("bridge = 12", "bridge = 13", "the bridge can't be 13"),
            ("bridges = [12]", "bridges = [12, 12]", "in a window once"),
            ("bridges = [12]", "bridges = []", "the number of bridges can't be 0"),
            ("size = \"4GiB\"", "size = \"4GB\"", "the size of a window can't be"),
            ("persistent = \"512MiB\"", "persistent = \"511MiB\"", "the persistent capacity can't be"),
            ("persistent = \"512MiB\"", "", "volatile or persistent memory"),
            ("persistent = true", "persistent = false", "volatile = true or persistent = true"),
            ("0x00000000fe1a0b22", "fe1a0b22", "the serial can't be fe1a0b22"),
            ("#decoders = 4", "decoders = 3", "the number of decoders can't be 3"),
            ("#partition_alignment = \"0B\"", "partition_alignment = \"1MiB\"", "the partition alignment"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            let fault = Machine::parse(&changed).unwrap_err().to_string();
            assert!(fault.starts_with("line ") && fault.contains(said), "{fault}");
        }
        let twice = format!("{text}\n[[cxl.bridge]]\nid = 12\n");
        assert!(Machine::parse(&twice).unwrap_err().to_string().contains("second host bridge"));
        let loops = text.replacen("name = \"sw0\"\n", "name = \"sw0\"\nswitch = \"sw0\"\n#", 1);
        let loops = loops.replacen("\nbridge = 12", "", 1);
        assert!(Machine::parse(&loops).unwrap_err().to_string().contains("the switch can't be sw0"));
    }
}
