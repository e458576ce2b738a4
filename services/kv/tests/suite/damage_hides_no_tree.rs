//! Damage that hides a tree from lookups is reported as damage, and never as a tree that is absent.
//!
//! Post-mortem. A slot of the table of trees that read as zero made `StoreReader::open_tree` say that there is no such tree,
//! and the list of names lacked it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::named::make_named;
use lode_index::IndexError;
use lode_kv::{CopySource, KvError, NamedTrees, StoreReader};
use lode_layout::{LINE, TREE_CELLS, TREE_CELLS_OFF};
use std::fs;

/// Each word of the pool that is not zero becomes zero.
#[test]
fn zeroed_word_hides_no_tree() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    make_named(&path, |_, _| {});
    let whole = fs::read(&path).unwrap();
    let mut hidden = 0;
    for at in (0..whole.len()).step_by(8).filter(|at| whole[*at..at + 8] != [0; 8]) {
        let mut bytes = whole.clone();
        bytes[at..at + 8].fill(0);
        fs::write(&path, bytes).unwrap();
        let Ok(trees) = NamedTrees::open(&path) else { continue };
        hidden += usize::from(matches!(trees.get("left"), Ok(None)));
        for result in [
            trees.names(),
            trees.counted().map(|counted| counted.trees.into_iter().map(|tree| tree.name).collect()),
        ] {
            match result {
                Ok(names) => assert_eq!(names, ["left", "right"], "{at:#x}"),
                Err(error) => assert!(error.is_damage(), "{at:#x}: {error}"),
            }
        }
        drop(trees);
        if let Err(error) = StoreReader::open_tree(&path, b"left") {
            assert!(error.is_damage(), "{at:#x}: {error}");
        }
    }
    assert!(hidden > 0, "some words lead to the tree");
}

#[test]
fn counts_that_overflow_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    make_named(&path, |pool, [_, tree]| {
        let changed: Result<(), IndexError> = pool.heap().run(|tx| {
            for index in 0..TREE_CELLS {
                let cell = tree.plus(TREE_CELLS_OFF + index * LINE);
                tx.lock(cell)?;
                tx.store8(cell, if index == 0 { u64::MAX } else { 0 });
            }
            Ok(())
        });
        changed.unwrap();
    });
    let errors = [
        NamedTrees::open(&path).and_then(|trees| trees.counted()).unwrap_err(),
        CopySource::open(&path).and_then(|source| source.count()).unwrap_err(),
    ];
    for error in errors {
        assert!(
            error.is_damage() && matches!(&error, KvError::InTree { name, .. } if name == "right"),
            "{error}"
        );
    }
}
