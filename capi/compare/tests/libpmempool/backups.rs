//! Backups of `pmempool check`: new ones, and such that replace a file.

use crate::damage::Pools;
use lode_capi_compare::{Files, Tool, ToolRun};

#[test]
fn backups_are_made_alike() {
    let Some(tool) = Tool::find() else { return };
    let part = |name: &str| tool.folder().join(name).display().to_string();
    for (name, files) in Pools::make(&tool).pools {
        if !matches!(name, "log" | "logset" | "objset") {
            continue;
        }
        let mut damaged = files.clone();
        let first = damaged.values_mut().find(|bytes| bytes.len() > 4096).unwrap();
        first[4096 + 8] ^= 1;
        let with = |others: &[(&str, Vec<u8>)]| -> Files {
            let others = others.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone()));
            damaged.clone().into_iter().chain(others).collect()
        };
        let set = |sizes: &[u64]| {
            let lines = sizes.iter().enumerate();
            let lines = lines.map(|(index, size)| format!("{size}M {}\n", part(&format!("k{index}"))));
            format!("PMEMPOOLSET\n{}", lines.collect::<String>()).into_bytes()
        };
        let set_of = |names: &[&str]| {
            let lines = names.iter().map(|name| format!("2M {}\n", part(name)));
            format!("PMEMPOOLSET\n{}", lines.collect::<String>()).into_bytes()
        };
        for others in [
            &[][..],
            &[("backup", vec![7; 2 << 20])],
            &[("backup", vec![7; 5000])],
            &[("backup", set(&[2, 2]))],
            &[("backup", set(&[2, 3]))],
            &[("backup", set(&[2]))],
            &[("backup", set(&[2, 2])), ("k1", vec![7; 2 << 20])],
            &[("backup", set(&[2, 2])), ("k1", vec![7; 5000])],
            // The second part can't be made.
            &[("backup", set_of(&["k0", "missing/k1"])), ("k0", vec![7; 2 << 20])],
        ] {
            for (options, input) in [(&["-r", "-y"][..], ""), (&["-r"], "y\ny\n"), (&["-r"], "n\n")] {
                let check = [&["check", "-v", "-b", "backup"][..], options, &[name]].concat();
                let sizes: Vec<usize> = others.iter().map(|(_, bytes)| bytes.len()).collect();
                let run = ToolRun { input, ..ToolRun::of(&check) };
                tool.compare(&with(others), &[run], &format!("{name}, {sizes:?}, {input:?}"));
            }
        }
    }
}

/// The pool is its own backup: both libraries refuse it, in the same words.
#[test]
fn backup_onto_the_pool_is_refused_alike() {
    let Some(tool) = Tool::find() else { return };
    let (name, mut files) = Pools::make(&tool).pools.swap_remove(0);
    files.get_mut(name).unwrap()[4096 + 8] ^= 1;
    for (options, input) in [(&["-r", "-y"][..], ""), (&["-r"], "y\ny\n"), (&["-r"], "n\n")] {
        let check = [&["check", "-v", "-b", name][..], options, &[name]].concat();
        let results = tool.compare(&files, &[ToolRun { input, ..ToolRun::of(&check) }], input);
        assert!(results.files == files, "{}", results.text);
    }
}

/// A backup set that has a part of the pool: PMDK's library loses that part.
#[test]
fn backup_onto_a_part_of_the_pool_is_refused() {
    let Some(tool) = Tool::find() else { return };
    let pools = Pools::make(&tool).pools;
    let (name, mut files) = pools.into_iter().find(|(name, _)| *name == "logset").unwrap();
    let part = |name: &str| tool.folder().join(name).display().to_string();
    let set = format!("PMEMPOOLSET\n2M {}\n2M {}\n", part("l1"), part("k1"));
    files.insert("backup".to_owned(), set.into_bytes());
    let run = ToolRun::of(&["check", "-v", "-r", "-y", "-b", "backup", name]);
    let results = tool.take(true, &files, &[run]);
    assert!(results.text.contains("is the pool itself, or a part of it"), "{}", results.text);
    assert!(results.files == files, "{}", results.text);
}
