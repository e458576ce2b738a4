//! Cycles.
#![allow(missing_docs, clippy::all)]
use lode_heap::*;
use lode_layout::*;
use lode_pmem::*;
use std::arch::x86_64::_rdtsc;
fn bits() -> u64 {
    static B: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *B.get_or_init(|| std::env::var("B").map_or(16, |b| b.parse().unwrap()))
}
fn now() -> u64 {
    unsafe { _rdtsc() }
}
fn measure(name: &str, n: u64, mut f: impl FnMut(u64)) {
    for i in 0..n / 10 {
        f(i);
    }
    let mut best = u64::MAX;
    let mut all = vec![];
    for _ in 0..5 {
        let t = now();
        for i in 0..n {
            f(i);
        }
        let c = (now() - t) / n;
        best = best.min(c);
        all.push(c);
    }
    all.sort();
    println!("{name}: median {} best {best} cycles", all[2]);
}
fn main() {
    let rung = match std::env::args().nth(1).as_deref() {
        Some("none") => Rung::None,
        Some("byte") => Rung::Byte,
        Some("commit") => Rung::Commit,
        _ => Rung::Line,
    };
    let size = 256u64 << 20;
    let path = "/dev/shm/lode-cycles";
    let f = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    f.set_len(size).unwrap();
    let m = Mapping::options().rung(rung).map_file(f, path).unwrap();
    let g = Geometry::plan(size).unwrap();
    Heap::format(&m, &g, &[1; 16], [1, 2]).unwrap();
    let (heap, _) = Heap::open(m, &g, [1; 16], [3, 4]).unwrap();
    let n = 200_000;
    let buf = vec![0x55u64; 32];
    let base = g.log_off();
    measure("nt64 + fence", n, |i| {
        heap.medium()
            .log_write(base.plus((i % 4096) * 64), zerocopy::IntoBytes::as_bytes(&buf[..8]))
            .unwrap();
    });
    measure("nt256 + fence", n, |i| {
        heap.medium()
            .log_write(base.plus((i % 4096) * 256), zerocopy::IntoBytes::as_bytes(&buf[..]))
            .unwrap();
    });
    let at = heap
        .run(|tx| {
            let at = tx.alloc(1 << 20, 64, 1)?;
            tx.set_root(at);
            Ok::<_, HeapError>(at)
        })
        .unwrap();
    measure("empty tx", n, |_| heap.run(|_| Ok::<_, HeapError>(())).unwrap());
    for k in [1u64, 4, 16] {
        let mut x = 1u64;
        measure(&format!("tx-{k}"), n, |i| {
            heap.run(|tx| {
                for j in 0..k {
                    x = x.wrapping_mul(6364136223846793005).wrapping_add(1);
                    tx.store8(at.plus(((x >> 33) % (1 << bits())) * 8), i + j)
                }
                Ok::<_, HeapError>(())
            })
            .unwrap()
        });
    }
    let mut last = heap.run(|tx| tx.alloc(64, 16, 2)).unwrap();
    let content = [7u64; 8];
    measure("tx-alloc", n, |_| {
        last = heap
            .run(|tx| {
                let new = tx.alloc(64, 16, 2)?;
                tx.store_words(new, &content);
                tx.store8(at, new.get());
                tx.free(last)?;
                Ok::<_, HeapError>(new)
            })
            .unwrap();
    });
    measure("alloc+free", n, |_| {
        let new = heap.run(|tx| tx.alloc(64, 16, 2)).unwrap();
        heap.run(|tx| tx.free(new)).unwrap();
    });
    heap.close().unwrap();
    std::fs::remove_file(path).unwrap();
}
