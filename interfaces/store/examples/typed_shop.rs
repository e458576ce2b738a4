//! A queue of orders and a stock in one typed pool: an order leaves the queue together with the pieces that it takes.
//!
//! The documentation of `lode-heap` lists messages of the compiler, and what to do then.

use lodestone::typed::{Access, CellValue, CreateOptions, Durability, HeapError, LayoutName, OpenOptions};
use lodestone::typed::{PCell, PDeque, PVec, Persist, TypedPool, TypedTx};
use std::error::Error;
use std::path::Path;
use std::thread;

lodestone::typed::brand!(Shop);

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
struct Pieces {
    product: u32,
    count: u32,
}

#[derive(Persist)]
#[persist(brand = Shop)]
#[repr(C)]
struct Root {
    orders: PDeque<Pieces, Shop>,
    stock: PVec<Pieces, Shop>,
    refused: PCell<u64, Shop>,
}

/// Opens the shop, or makes it.
fn open(path: &Path) -> Result<TypedPool<Shop>, Box<dyn Error>> {
    // Programs leave the durability out, and get the one that the medium offers.
    let durability = Some(Durability::None);
    let pool = if path.exists() {
        TypedPool::open(path, &OpenOptions { durability, ..OpenOptions::new(Access::ReadWrite) })?
    } else {
        let options = CreateOptions::new(1 << 20, LayoutName::new("shop")?);
        TypedPool::create(path, &CreateOptions { durability, ..options })?
    };
    pool.root_or_init(|_| Ok(Root { orders: PDeque::new(), stock: PVec::new(), refused: PCell::new(0) }))?;
    Ok(pool)
}

/// Takes an order from the queue, and its pieces from the stock. Returns false if no order waits.
fn fill_next(pool: &TypedPool<Shop>) -> Result<bool, HeapError> {
    let shop = pool.root::<Root>()?.expect("made by open");
    pool.run(|tx| {
        let Some(order) = shop.orders.pop_front(tx)? else { return Ok(false) };
        if !take(tx, shop, order)? {
            shop.refused.set(tx, shop.refused.get(tx)? + 1)?;
        }
        Ok(true)
    })
}

/// Takes the pieces of an order from the stock. Returns false if there are too few.
fn take(tx: &TypedTx<'_, Shop>, shop: &Root, order: Pieces) -> Result<bool, HeapError> {
    for (index, pieces) in (0..).zip(shop.stock.to_vec(tx)?) {
        if pieces.product == order.product && pieces.count >= order.count {
            return shop.stock.set(tx, index, Pieces { count: pieces.count - order.count, ..pieces });
        }
    }
    Ok(false)
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shop.pool");
    let pool = open(&path)?;
    let shop = pool.root::<Root>()?.expect("made by open");
    pool.run(|tx| {
        shop.stock.extend_from_slice(tx, &[1, 2].map(|product| Pieces { product, count: 50 }))?;
        let mut products = (0..60).map(|number| number % 3 + 1);
        products.try_for_each(|product| shop.orders.push_back(tx, Pieces { product, count: 2 }))
    })?;
    drop(pool); // As in a crash: the orders are there again.
    let pool = open(&path)?;
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| while fill_next(&pool).expect("filled or refused") {});
        }
    });
    let (shop, guard) = (pool.root::<Root>()?.expect("made by open"), pool.guard());
    assert_eq!(shop.stock.load_all(&guard)?, [1, 2].map(|product| Pieces { product, count: 10 }));
    assert_eq!((shop.orders.load_len(&guard), shop.refused.load(&guard)?), (0, 20));
    println!("40 orders filled, 20 refused");
    Ok(())
}
