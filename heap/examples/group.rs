//! g
#![allow(missing_docs, clippy::all)]
use lode_heap::*;
use lode_layout::*;
use lode_pmem::*;
use std::time::*;
fn main() {
    let size = 256u64 << 20;
    let path = "target/group.pool";
    let f = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    let z = vec![0u8; 1 << 20];
    use std::io::Write;
    let mut w = &f;
    for _ in 0..256 {
        w.write_all(&z).unwrap();
    }
    f.sync_all().unwrap();
    let m = Mapping::options().rung(Rung::Commit).map_file(f, path).unwrap();
    let m = std::sync::Arc::new(Counted::new(m));
    let c = m.clone();
    let g = Geometry::plan(size).unwrap();
    Heap::format(&m, &g, &[1; 16], [1, 2]).unwrap();
    let (heap, _) = Heap::open(m, &g, [1; 16], [3, 4]).unwrap();
    let at = heap.run(|tx| tx.alloc(1 << 20, 64, 1)).unwrap();
    for threads in [1usize, 2, 4, 16, 64] {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let t = Instant::now();
        let n: u64 = std::thread::scope(|s| {
            let hs: Vec<_> = (0..threads)
                .map(|i| {
                    let (heap, stop) = (&heap, &stop);
                    s.spawn(move || {
                        let mut n = 0u64;
                        let mut lat = Duration::ZERO;
                        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                            let t = Instant::now();
                            heap.run(|tx| {
                                tx.store_words(at.plus(i as u64 * 4096 + n % 32 * 128), &[n; 14]);
                                Ok::<_, HeapError>(())
                            })
                            .unwrap();
                            lat = lat.max(t.elapsed());
                            n += 1
                        }
                        (n, lat)
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_secs(2));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            hs.into_iter()
                .map(|h| {
                    let (n, l) = h.join().unwrap();
                    if threads < 4 {
                        println!("  max {l:?}");
                    }
                    n
                })
                .sum()
        });
        let after = c.counts();
        println!("{after:?}");
        println!(
            "{threads} threads: {:.0}/s  {:.1} us each",
            n as f64 / t.elapsed().as_secs_f64(),
            t.elapsed().as_secs_f64() * 1e6 * 1.0 / n as f64
        );
    }
}
