//! A power cut loses no transaction that a program at durability `commit` acknowledged as durable.

mod trials;

use lode_powercut::Found;
use trials::ledger;

#[test]
fn a_power_cut_keeps_what_was_acknowledged() {
    let found = ledger("a_power_cut_keeps_what_was_acknowledged", 12, None);
    if let Found::Violation(violation) = found {
        panic!("{violation}");
    }
}
