//! The content of a log pool of PMDK whose headers another layer has, as those of a pool set.

use lode_log::pmdk::{PmemLog, PmemLogError};
use lode_testing::memory;
use std::sync::Arc;

#[test]
fn headers_are_left_to_their_layer() {
    let medium = Arc::new(memory::persistent(2 << 20));
    PmemLog::format_content(&medium).unwrap();
    let log = PmemLog::open_content(Arc::clone(&medium)).unwrap();
    assert_eq!((log.len(), log.capacity()), (0, (2 << 20) - 8192));
    log.appendv(&[&b"one"[..], b"two"]).unwrap();
    log.close().unwrap();
    let log = PmemLog::open_content(Arc::clone(&medium)).unwrap();
    assert_eq!(log.len(), 6);
    drop(log);
    assert!(memory::bytes(&medium)[..4096].iter().all(|byte| *byte == 0));
    let error = PmemLog::open(medium).unwrap_err();
    assert!(matches!(error, PmemLogError::Header(_)), "{error}");
}

#[test]
fn damaged_descriptors_are_refused() {
    let medium = Arc::new(memory::persistent(2 << 20));
    let error = PmemLog::open_content(medium).unwrap_err();
    assert!(matches!(error, PmemLogError::Descriptor(_)), "{error}");
    let error = PmemLog::format_content(&memory::persistent(1 << 20)).unwrap_err();
    assert!(matches!(error, PmemLogError::Plan(_)), "{error}");
}
