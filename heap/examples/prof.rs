//! p
#![allow(missing_docs, clippy::all)]
use lode_heap::*;
use lode_layout::*;
use lode_pmem::*;
fn main() {
    let size = 64u64 << 20;
    let m = Mapping::options().rung(Rung::None).map_anonymous(size).unwrap();
    let g = Geometry::plan(size).unwrap();
    Heap::format(&m, &g, &[1; 16], [1, 2]).unwrap();
    let (heap, _) = Heap::open(m, &g, [1; 16], [3, 4]).unwrap();
    let at = heap
        .run(|tx| {
            let at = tx.alloc(1 << 20, 64, 1)?;
            tx.set_root(at);
            Ok::<_, HeapError>(at)
        })
        .unwrap();
    let what = std::env::args().nth(1).unwrap();
    let k: u64 = what.parse().unwrap_or(0);
    let mut x = 1u64;
    let content = [7u64; 8];
    let mut last = heap.run(|tx| tx.alloc(64, 16, 2)).unwrap();
    for i in 0..10000 {
        if k > 0 {
            heap.run(|tx| {
                for j in 0..k {
                    x = x.wrapping_mul(6364136223846793005).wrapping_add(1);
                    tx.store8(at.plus(((x >> 33) % (1 << 16)) * 8), i + j)
                }
                Ok::<_, HeapError>(())
            })
            .unwrap()
        } else {
            last = heap
                .run(|tx| {
                    let new = tx.alloc(64, 16, 2)?;
                    tx.store_words(new, &content);
                    tx.store8(at, new.get());
                    tx.free(last)?;
                    Ok::<_, HeapError>(new)
                })
                .unwrap();
        }
    }
}
