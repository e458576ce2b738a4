//! Scratch.
#![allow(missing_docs)]
use lode_heap::Heap;
use lode_index::{IndexError, Tree};
use lode_layout::Geometry;
use lode_pmem::{Mapping, Medium, Rung};
fn tsc() -> u64 {
    let s = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let ns: u64 = s.split(' ').next().unwrap().parse().unwrap();
    (ns as f64 * 2.596) as u64
}
fn main() {
    let n: usize = std::env::args().nth(1).map_or(1_000_000, |s| s.parse().unwrap());
    let rung = match std::env::args().nth(2).as_deref() {
        Some("none") => Rung::None,
        _ => Rung::Line,
    };
    let path = format!("/dev/shm/lode-scratch-{}", std::process::id());
    let size = 512u64 << 20;
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(size).unwrap();
    // touch
    {
        use std::io::Write;
        let mut f = &file;
        let z = vec![0u8; 1 << 20];
        for _ in 0..512 {
            f.write_all(&z).unwrap();
        }
    }
    let m = Mapping::options().rung(rung).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let g = Geometry::plan(size).unwrap();
    Heap::format(&m, &g, &[7; 16], [1, 2]).unwrap();
    let heap = Heap::open(m, &g, [7; 16], [3, 4]).unwrap().0;
    let root = heap
        .run(|tx| {
            let r = Tree::create(tx)?;
            tx.set_root(r);
            Ok::<_, IndexError>(r)
        })
        .unwrap();
    let tree = Tree::open(&heap, root).unwrap();
    let mut rng = fastrand::Rng::with_seed(42);
    let keys: Vec<[u8; 8]> = (0..n).map(|_| rng.u64(..).to_be_bytes()).collect();
    // warm page tables
    let mem = heap.medium().memory();
    let mut s = 0;
    for i in 0..size / 4096 {
        s += mem.load8(lode_layout::PoolOffset::new(i * 4096));
    }
    std::hint::black_box(s);
    let t = tsc();
    for k in &keys {
        tree.insert(k, k).unwrap();
    }
    println!("insert   {:7.0} cycles", (tsc() - t) as f64 / n as f64);
    let mut order: Vec<usize> = (0..n).collect();
    for round in 0..3 {
        rng.shuffle(&mut order);
        let shuffled: Vec<[u8; 8]> = order.iter().map(|i| keys[*i]).collect();
        let r = tree.reader();
        let t = tsc();
        let mut hit = 0u64;
        for k in &shuffled {
            if let Some(v) = r.get(k).unwrap() {
                hit += v.len();
            }
        }
        println!("lookup   {:7.0} cycles  ({hit})", (tsc() - t) as f64 / n as f64);
        drop(r);
        let t = tsc();
        for k in &shuffled {
            tree.insert(k, &(round as u64).to_le_bytes()).unwrap();
        }
        println!("reinsert {:7.0} cycles", (tsc() - t) as f64 / n as f64);
    }
    println!("count {}", tree.count().unwrap());
    rng.shuffle(&mut order);
    let t = tsc();
    for i in &order {
        assert!(tree.delete(&keys[*i]).unwrap());
    }
    println!("delete   {:7.0} cycles", (tsc() - t) as f64 / n as f64);
    println!("count {}", tree.count().unwrap());
}
