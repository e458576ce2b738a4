//! Measures how fast images are made, recovered from twice, and checked. Prints the rate; fails only if it is far too
//! low.

use crate::toy::ToySubject;
use lode_sim::{Budget, Machine, Setup, explore};

#[test]
fn images_per_second() {
    for machine in Machine::ALL {
        for threads in [1, 3] {
            let budget = Budget { images: 50_000, seconds: 20.0 };
            let setup =
                Setup { machine, threads, operations: 60 / threads as u64, budget, ..Setup::default() };
            let report = explore(&ToySubject { bug: None }, &setup);
            println!("{machine}, {threads} threads: {report}");
            assert_eq!(report.violation, None);
            assert!(report.images_per_second() > 5000.0, "{report}");
        }
    }
}
