//! Sockets of DRAM, which listings do not tell: the names of the slots do.

/// Words before the number of a socket in names of slots.
const WORDS: [&str; 7] = ["cpu", "p", "proc", "processor", "socket", "skt", "node"];

/// A slot with its socket.
pub(crate) struct Slot<'a> {
    pub(crate) locator: &'a str,
    pub(crate) socket: u16,
}

/// Returns the socket of the slot with this name: by the number of the socket in it, as in `CPU1_DIMM_A1`, if the known
/// slots have such numbers too; or else that of the name with the longest common start.
pub(crate) fn socket_of(locator: &str, known: &[Slot<'_>]) -> u16 {
    let offsets: Option<Vec<i64>> =
        known.iter().map(|slot| Some(number(slot.locator)? - i64::from(slot.socket))).collect();
    let offset = offsets.filter(|all| all.windows(2).all(|pair| pair[0] == pair[1]));
    let first = offset.and_then(|all| all.first().copied());
    if let Some(socket) = first.and_then(|first| u16::try_from(number(locator)? - first).ok()) {
        return socket;
    }
    let common = |slot: &&Slot<'_>| {
        slot.locator.chars().zip(locator.chars()).take_while(|(one, other)| one == other).count()
    };
    known.iter().rev().max_by_key(common).map_or(0, |slot| slot.socket)
}

/// Returns the number of the socket in the name of a slot.
fn number(locator: &str) -> Option<i64> {
    let start = locator.find(|character: char| character.is_ascii_digit())?;
    let (word, rest) = locator.split_at(start);
    let word = word.trim_end_matches([' ', '_', '-']).to_ascii_lowercase();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).take(4).collect();
    if WORDS.contains(&word.as_str()) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn sockets_follow_from_names_of_slots() {
        let known = |slots: &[(&'static str, u16)]| -> Vec<Slot<'static>> {
            slots.iter().map(|(locator, socket)| Slot { locator, socket: *socket }).collect()
        };
        let two = known(&[("CPU1_DIMM_A2", 0), ("CPU2_DIMM_A2", 1)]);
        for (locator, socket) in [("CPU1_DIMM_A1", 0), ("CPU2_DIMM_F1", 1), ("CPU4_DIMM_A1", 3), ("CPU0", 0)]
        {
            assert_eq!(socket_of(locator, &two), socket, "{locator}");
        }
        let one = known(&[("P0 DIMM 3", 0)]);
        assert_eq!((socket_of("P1 DIMM 1", &one), socket_of("DIMM 9", &one)), (1, 0));
        let counted = known(&[("DIMM3", 0), ("DIMM15", 1)]);
        assert_eq!((socket_of("DIMM14", &counted), socket_of("DIMM3b", &counted)), (1, 0));
        assert_eq!(socket_of("CPU1", &[]), 0);
    }
}
