//! Object pools in directories that grow, by both libraries in turn, and under kills.

use lode_capi_compare::{Library, Program, SetFolder};
use std::fs;

/// A set in which both libraries let pools grow.
const SET: &str = "OPTION SINGLEHDR\n48M @/d\n";

/// Returns the bytes of the parts.
fn parts(set: &SetFolder) -> Vec<u64> {
    let names = set.names().into_iter().filter(|name| name.starts_with("d/"));
    names.map(|name| fs::metadata(set.path().join(name)).unwrap().len()).collect()
}

#[test]
fn pools_grow_on_both_libraries() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    for is_first_ours in [true, false] {
        let set = SetFolder::new(SET);
        let call = |is_ours: bool, words: &[&str]| set.call(&program, is_ours, words).unwrap();
        let (first, other) = (is_first_ours, !is_first_ours);
        call(first, &["create", "step:4194304", "alloc:30:200000", "tx:300:9000"]);
        assert!(parts(&set).len() > 2 && parts(&set)[..2] == [8 << 20, 4 << 20], "{:?}", parts(&set));
        let mut shown = call(first, &["open", "show"]);
        for round in 0..2 {
            for is_ours in [other, first] {
                assert_eq!(call(is_ours, &["open", "show"]), shown);
                let size = format!("alloc:4:{}", 700_000 + round);
                shown = call(
                    is_ours,
                    &["open", "step:2097152", "extend:2097152", &size, "free:7", "change:3", "show"],
                );
            }
        }
        assert!(parts(&set)[2..].iter().filter(|len| **len == 2 << 20).count() >= 4, "{:?}", parts(&set));
        // To the end of what the directory has room for, also in the next run.
        shown = call(other, &["open", "step:5242880", "fill:300000", "fill:70", "show"]);
        assert_eq!(call(first, &["open", "show"]), shown);
        assert_eq!(parts(&set).iter().sum::<u64>(), 48 << 20);
        let refused =
            [first, other].map(|is_ours| call(is_ours, &["open", "extend:2097152", "tx:1:9000000"]));
        for text in refused {
            assert!(text.starts_with("extend:2097152: errno "), "{text}");
            assert!(
                text.contains("exceeded reservation size") && text.contains("tx:1:9000000: errno 12"),
                "{text}"
            );
        }
        set.assert_consistent();
    }
}

/// A pool that is large enough for a log of ours in its chunks takes as many objects as with Debian's library, or more.
#[test]
fn full_pools_have_as_many_objects_as_pmdks() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    for fill in ["fill:300000", "fill:500000", "fill:3000"] {
        let [ours, debians] = [true, false].map(|is_ours| {
            let set = SetFolder::new("128M @/p\n");
            let shown = set.call(&program, is_ours, &["create", fill, "show"]).unwrap();
            assert_eq!(set.call(&program, !is_ours, &["open", "show"]).unwrap(), shown);
            set.call(&program, is_ours, &["open", "free:2", fill, "kill"]).unwrap_err();
            let after_kill = set.call(&program, true, &["open", "show"]).unwrap();
            assert_eq!(set.call(&program, false, &["open", "show"]).unwrap(), after_kill);
            set.assert_consistent();
            let [count, refilled] = [shown, after_kill].map(|text| {
                let count = text.split(' ').next().unwrap();
                count.parse::<u64>().unwrap()
            });
            assert_eq!(refilled, count, "{fill}");
            count
        });
        assert!(ours >= debians, "{fill}: {ours} objects, and {debians} with PMDK");
    }
}

/// A kill in the middle of growths leaves a pool that both open.
#[test]
fn killed_growth_is_before_or_after() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    let mut random = fastrand::Rng::with_seed(lode_testing::seed(1));
    let set = SetFolder::new("OPTION SINGLEHDR\n128M @/d\n");
    set.call(&program, true, &["create", "alloc:10:1000"]).unwrap();
    for _ in 0..lode_testing::scaled(5) {
        set.kill(&program, &["open", "step:2097152", "fill:40000"], random.u64(3_000..60_000));
        // A kill that was too early left a pool that was closed.
        let theirs = set.call(&program, false, &["open", "show"]);
        assert!(theirs.is_ok() || theirs.is_err_and(|text| text.contains("unknown incompat features")));
        let ours = set.call(&program, true, &["open", "show"]).unwrap();
        assert_eq!(set.call(&program, false, &["open", "show"]).unwrap(), ours);
        set.call(&program, random.bool(), &["open", "free:2"]).unwrap();
        assert!(set.names().iter().filter(|name| name.contains(".lode-")).count() <= 1);
    }
    set.call(&program, false, &["open", "step:2097152", "fill:40000", "show", "kill"]).unwrap_err();
    let shown = set.call(&program, true, &["open", "show"]).unwrap();
    assert_eq!(set.call(&program, false, &["open", "show"]).unwrap(), shown);
}
