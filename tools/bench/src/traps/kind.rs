//! The instructions that decide how many fences have something to wait for.

use anyhow::{Result, ensure};
use iced_x86::{Decoder, DecoderOptions, Mnemonic};

/// The effect of an instruction on the fences.
///
/// CLFLUSH is of neither kind: it is in order with all stores by itself (Intel SDM vol. 2A), so no fence has to wait for it. Locked
/// instructions wait as fences do (Intel SDM vol. 3A, 12.2.5), but neither library relies on one for that, so none counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The write-back of a line, or a store past the cache: a later fence waits for it.
    Store,
    /// A fence that waits.
    Fence,
}

impl Kind {
    fn of(mnemonic: Mnemonic) -> Option<Kind> {
        match mnemonic {
            Mnemonic::Clwb
            | Mnemonic::Clflushopt
            | Mnemonic::Movnti
            | Mnemonic::Movntq
            | Mnemonic::Movntdq
            | Mnemonic::Movntps
            | Mnemonic::Movntpd
            | Mnemonic::Movntss
            | Mnemonic::Movntsd
            | Mnemonic::Vmovntdq
            | Mnemonic::Vmovntps
            | Mnemonic::Vmovntpd
            | Mnemonic::Maskmovq
            | Mnemonic::Maskmovdqu
            | Mnemonic::Vmaskmovdqu
            | Mnemonic::Movdiri
            | Mnemonic::Movdir64b => Some(Kind::Store),
            Mnemonic::Sfence | Mnemonic::Mfence => Some(Kind::Fence),
            _ => None,
        }
    }
}

/// An instruction of a [`Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) kind: Kind,
    pub(super) address: u64,
    pub(super) len: usize,
}

/// Returns the instructions of `code`, whose first byte is at `address`.
///
/// The code is decoded from its first byte on, one instruction after the other, as a compiler wrote it. After bytes that are no
/// instruction it goes on with the next byte.
///
/// # Errors
/// Fails if one of them has an operand that is relative to its place: a copy elsewhere would do something else.
pub(super) fn instructions(code: &[u8], address: u64) -> Result<Vec<Instruction>> {
    let mut found = Vec::new();
    for instruction in Decoder::with_ip(64, code, address, DecoderOptions::NONE).iter() {
        let Some(kind) = Kind::of(instruction.mnemonic()) else { continue };
        ensure!(
            !instruction.is_ip_rel_memory_operand(),
            "a store at {:#x} is relative to its place",
            instruction.ip()
        );
        found.push(Instruction { kind, address: instruction.ip(), len: instruction.len() });
    }
    Ok(found)
}

#[cfg(test)]
mod test {
    use super::*;

    fn kinds(code: &[u8]) -> Vec<(Kind, u64, usize)> {
        let found = instructions(code, 0x1000).unwrap();
        found.into_iter().map(|found| (found.kind, found.address, found.len)).collect()
    }

    #[test]
    fn stores_and_fences_are_found_between_others() {
        // nop; clwb [rax]; sfence; clflush [rax]; movnti [rdi], rax; mfence; lock or dword [rsp], 0
        let code = [
            &[0x90][..],
            &[0x66, 0x0f, 0xae, 0x30],
            &[0x0f, 0xae, 0xf8],
            &[0x0f, 0xae, 0x38],
            &[0x48, 0x0f, 0xc3, 0x07],
            &[0x0f, 0xae, 0xf0],
            &[0xf0, 0x83, 0x0c, 0x24, 0x00],
        ];
        let wanted = [
            (Kind::Store, 0x1001, 4),
            (Kind::Fence, 0x1005, 3),
            (Kind::Store, 0x100b, 4),
            (Kind::Fence, 0x100f, 3),
        ];
        assert_eq!(kinds(&code.concat()), wanted);
    }

    #[test]
    fn bytes_of_a_constant_are_no_instruction() {
        // mov rax, with the bytes of sfence and clwb in its constant
        assert_eq!(kinds(&[0x48, 0xb8, 0x0f, 0xae, 0xf8, 0x66, 0x0f, 0xae, 0x30, 0x90]), []);
    }

    #[test]
    fn stores_relative_to_their_place_are_refused() {
        // movnti [rip], eax
        assert!(instructions(&[0x0f, 0xc3, 0x05, 0, 0, 0, 0], 0x1000).is_err());
    }
}
