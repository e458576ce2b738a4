use lode_heap::{PCell, TypedPool};
use std::sync::Arc;
use std::thread;

lode_heap::brand!(Shop);

fn spawned(pool: Arc<TypedPool<Shop>>) {
    let visits = pool.root::<PCell<u64, Shop>>().unwrap().expect("made before");
    let of_thread = Arc::clone(&pool);
    thread::spawn(move || of_thread.run(|tx| visits.get(tx)));
}

fn borrowed(pool: &TypedPool<Shop>) {
    thread::spawn(|| pool.run(|tx| pool.root::<PCell<u64, Shop>>()?.expect("made before").get(tx)));
}

fn moved(pool: TypedPool<Shop>) -> (TypedPool<Shop>, &'static PCell<u64, Shop>) {
    let visits = pool.root::<PCell<u64, Shop>>().unwrap().expect("made before");
    (pool, visits)
}

fn main() {}
