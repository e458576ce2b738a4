//! A power cut loses no transaction that a program at durability `commit` acknowledged as durable.

mod trials;

use lode_powercut::TrialsResult;
use trials::ledger;

#[test]
fn power_cut_keeps_acknowledged_transactions() {
    let result = ledger("power_cut_keeps_acknowledged_transactions", 12, None);
    if let TrialsResult::Violation(violation) = result {
        panic!("{violation}");
    }
}
