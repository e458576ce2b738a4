//! Reserved space is nobody's on the medium until a transaction publishes it, with its content.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod pool;

use lode_heap::HeapError;
use lode_pmem::Medium;
use pool::Pool;

const LEN: u64 = 4 << 20;

#[test]
fn published_with_their_content_or_given_back() {
    for size in [1, 40, 1000, 1032, 5000, 100_000] {
        let mut pool = Pool::new(LEN);
        let heap = pool.heap();
        let content: Vec<u8> = (0..size).map(|index| index as u8 ^ 0x5a).collect();
        let reserved = heap.reserve(size, 64, 9).unwrap();
        let other = heap.reserve(size, 64, 9).unwrap();
        assert!(reserved.at().get() % 64 == 0 && reserved.at().get().abs_diff(other.at().get()) >= size);
        reserved.store(0, &content).unwrap();
        assert!(reserved.store(1, &content).is_err());
        assert_eq!(heap.next_object(lode_layout::PoolOffset::NULL), Ok(None));
        // A transaction that fails leaves it reserved.
        let failed = heap.run(|tx| {
            tx.publish(&reserved)?;
            assert_eq!(tx.publish(&reserved), Err(HeapError::Published { at: reserved.at() }));
            Err::<(), _>(HeapError::InTransaction)
        });
        assert_eq!(failed, Err(HeapError::InTransaction));
        assert_eq!(heap.objects().count(), 0);
        heap.run(|tx| tx.publish(&reserved)).unwrap();
        let at = reserved.at();
        assert_eq!(heap.run(|tx| tx.publish(&reserved)), Err(HeapError::Published { at }));
        assert_eq!(reserved.store(0, &content), Err(HeapError::Published { at }));
        drop((reserved, other));
        drop(heap);
        if size <= 1024 {
            // A power cut may lose what is at home: the content is in the record.
            pool.medium().store(at, &vec![0; size as usize]);
        }
        let heap = pool.heap();
        let objects: Vec<_> = heap.objects().map(Result::unwrap).collect();
        assert_eq!(objects.len(), 1, "{size}");
        assert!(objects[0].at == at && objects[0].type_number == 9 && objects[0].size >= size);
        assert!(heap.memory().equals(at, &content), "{size}");
        heap.run(|tx| tx.free(at)).unwrap();
        assert_eq!(heap.objects().count(), 0);
    }
}

#[test]
fn cancelled_space_can_be_taken_again() {
    let mut pool = Pool::new(LEN);
    let heap = pool.heap();
    for _ in 0..50 {
        // More than half of the pool each.
        heap.reserve(LEN / 8 * 5, 4096, 1).unwrap().cancel();
        let small: Vec<_> = (0..200).map(|_| heap.reserve(2000, 16, 1).unwrap()).collect();
        drop(small);
    }
    assert_eq!(heap.objects().count(), 0);
    assert_eq!(heap.reserve(1, 8192, 1).err(), Some(HeapError::Alignment { align: 8192 }));
    assert!(matches!(heap.reserve(LEN, 16, 1).err(), Some(HeapError::OutOfSpace { .. })));
    let nested = heap.run(|_| Ok::<_, HeapError>(heap.reserve(8, 8, 1).err()));
    assert_eq!(nested, Ok(Some(HeapError::InTransaction)));
}
