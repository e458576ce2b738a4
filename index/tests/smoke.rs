//! Smoke.

mod fixture;
use std::collections::BTreeMap;
#[test]
fn smoke() {
    let medium = fixture::memory(64 << 20);
    let heap = fixture::format(medium);
    let tree = fixture::plant(&heap);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut model = BTreeMap::new();
    for step in 0..200_000u64 {
        let len = rng.usize(..6);
        let key: Vec<u8> = (0..len).map(|_| if rng.bool() { rng.u8(..) } else { rng.u8(..3) }).collect();
        if rng.u8(..) < 150 {
            let value = step.to_le_bytes().to_vec();
            assert_eq!(tree.insert(&key, &value).unwrap(), model.insert(key.clone(), value).is_some());
        } else {
            assert_eq!(tree.delete(&key).unwrap(), model.remove(&key).is_some());
        }
        assert_eq!(tree.get(&key).unwrap(), model.get(&key).cloned());
    }
    for (k, v) in &model { assert_eq!(tree.get(k).unwrap().as_ref(), Some(v)); }
    assert_eq!(tree.count().unwrap(), model.len() as u64);
    for k in model.keys() { assert!(tree.delete(k).unwrap()); }
    assert_eq!(tree.count().unwrap(), 0);
}
