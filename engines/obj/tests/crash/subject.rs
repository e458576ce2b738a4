//! The allocator as a subject of the explorer: threads replace the objects of their slots, in a pool that is soon full.

use lode_layout::{PmdkHeader, PmdkHeap, PmdkKind, PmdkObj, PmdkObjState, PmdkUlog, PoolOffset, WORD};
use lode_obj::{Action, ObjError, ObjView, Pool, Request, Reservation, check};
use lode_pmem::{Counter, Durability, FaultScope, Medium};
use lode_sim::oracle::{Access, RegisterMismatch, Registers};
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject};
use std::sync::Arc;
use uuid::Uuid;

const LANES: u64 = 0x2000;
const CHUNKS: u64 = 8;
/// Slots of a thread, and threads.
const SLOTS: u64 = 6;
const THREADS: u64 = 3;
/// Bytes that an object has at least: its value, stored over and over.
const CONTENT: u64 = 96;
/// Sizes of objects: one block, several, and one to three chunks.
const SIZES: [u64; 8] = [100, 100, 200, 700, 1500, 262_100, 524_200, 786_300];

/// What a slot holds: keys and values. A value is 0 without an object.
type Write = Vec<(u64, u64)>;

/// A pool with few chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeapSubject {
    lane_count: u64,
}

/// The pool while it is used.
pub(crate) struct Engine {
    pool: Pool<Arc<SimMedium>>,
    table: PoolOffset,
    value: Counter,
}

impl HeapSubject {
    /// Returns the subject for media of that durability: an image has a page there.
    pub(crate) fn new(durability: Durability) -> HeapSubject {
        HeapSubject { lane_count: if durability == Durability::Commit { 256 } else { 64 } }
    }

    fn heap(&self) -> u64 {
        LANES + self.lane_count * PmdkUlog::LANE_LEN
    }

    fn store_new(&self, medium: &SimMedium) {
        let uuid = Uuid::from_bytes([7; 16]);
        let put = |at: u64, bytes: &[u8]| medium.store(PoolOffset::new(at), bytes);
        put(0, &PmdkHeader::new(PmdkKind::Objects, uuid, uuid, 1).encode());
        let (lane_count, heap) = (self.lane_count, self.heap());
        put(PmdkObj::OFF, &PmdkObj { layout: b"heap".to_vec(), lanes: LANES, lane_count, heap }.encode());
        let heap_size = self.size() - heap;
        let (root, run_id, root_size, conversion, allocated) = (PoolOffset::NULL, 2, 0, 0, 0);
        let state = PmdkObjState { root, run_id, root_size, conversion, heap_size, allocated };
        put(PmdkObjState::OFF.get(), &state.encode());
        put(heap, &PmdkHeap::encode());
        for lane in 0..lane_count {
            let mut at = LANES + lane * PmdkUlog::LANE_LEN;
            for capacity in
                [PmdkUlog::INTERNAL_CAPACITY, PmdkUlog::EXTERNAL_CAPACITY, PmdkUlog::UNDO_CAPACITY]
            {
                let next = PoolOffset::NULL;
                let log = PmdkUlog { checksum: 0, next, capacity, gen_num: 0, is_user_owned: false };
                put(at, &log.encode());
                at += PmdkUlog::LEN as u64 + capacity;
            }
        }
    }
}

fn word(medium: &SimMedium, at: PoolOffset) -> Result<u64, ObjError> {
    Ok(medium.memory().reading(|memory| memory.load8(at))?)
}

impl Engine {
    fn slot(&self, slot: u64) -> PoolOffset {
        self.table.plus(slot * WORD)
    }

    /// Reserves an object with a value, whose content is durable. `None` if there is no space, or the log has failed.
    fn reserve(&self, size: u64, value: u64) -> Option<Reservation> {
        let request = Request { size, type_number: value, ..Request::default() };
        let reservation = self.pool.reserve(&request).ok()?;
        let content = value.to_le_bytes().repeat((CONTENT / WORD) as usize);
        let (at, medium) = (reservation.at, self.pool.medium());
        let filled = FaultScope::run(|| medium.store(at, &content)).is_ok();
        if filled && self.pool.persist(at, CONTENT).is_ok() {
            return Some(reservation);
        }
        self.pool.cancel(&reservation);
        None
    }

    /// Publishes, and notes how it ended.
    fn publish(&self, actor: &mut Actor<'_, Write>, writes: Write, actions: &[Action]) -> bool {
        let ticket = actor.begin(writes);
        match self.pool.publish(actions) {
            Ok(()) => {
                actor.returned(ticket);
                return true;
            }
            Err(_) => actor.in_doubt(ticket),
        }
        false
    }

    /// Replaces the objects of some slots by new ones, or frees them. False if the log has failed.
    fn replace(&self, actor: &mut Actor<'_, Write>, objects: &mut [Option<PoolOffset>]) -> bool {
        let first = actor.thread as u64 * SLOTS;
        let (mut writes, mut actions, mut held) = (Vec::new(), Vec::new(), objects.to_vec());
        let (mut slots, count): (Vec<u64>, _) = ((0..SLOTS).collect(), actor.rng.usize(1..4));
        actor.rng.shuffle(&mut slots);
        for slot in slots.into_iter().take(count) {
            let value = self.value.add(1) * 0x0101_0101;
            let size = SIZES[actor.rng.usize(..SIZES.len())];
            let new = if actor.rng.u8(..3) == 0 { None } else { self.reserve(size, value) };
            let object = &mut held[slot as usize];
            actions.extend(object.map(Action::Free));
            actions.extend(new.map(Action::Allocate));
            *object = new.map(|new| new.at);
            let at = object.map_or(0, PoolOffset::get);
            actions.push(Action::Store { at: self.slot(first + slot), value: at });
            writes.push((first + slot, if at == 0 { 0 } else { value }));
        }
        if self.publish(actor, writes, &actions) {
            objects.copy_from_slice(&held);
            return true;
        }
        false
    }
}

impl Subject for HeapSubject {
    type Engine = Engine;
    type Operation = Write;
    type Contents = Vec<(u64, u64)>;
    type Legal = Registers<u64, u64>;
    type Mismatch = RegisterMismatch<u64, u64>;
    type Error = String;

    fn size(&self) -> u64 {
        let heap = PmdkHeap::LEN as u64 + PmdkHeap::ZONE_HEADERS + CHUNKS * PmdkHeap::CHUNK;
        (self.heap() + heap).next_multiple_of(4096)
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), String> {
        self.store_new(&medium);
        let wrong = |error: ObjError| error.to_string();
        let pool = Pool::open(medium).map_err(wrong)?;
        pool.root_of(SLOTS * THREADS * WORD, |_| Ok::<(), ObjError>(())).map_err(wrong)?;
        // Left open: the explored open is that after a crash.
        drop(pool);
        Ok(())
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, String> {
        let pool = Pool::open(medium).map_err(|error| error.to_string())?;
        let root = pool.root().map_err(|error| error.to_string())?;
        let (table, _) = root.ok_or("the pool has no root")?;
        Ok(Engine { pool, table, value: Counter::new(1) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Write>) {
        let mut objects = [None; SLOTS as usize];
        for _ in 0..actor.operations {
            let is_going = match actor.rng.u8(..10) {
                0 => engine.pool.checkpoint().is_ok(),
                1 => {
                    let size = SIZES[actor.rng.usize(..SIZES.len())];
                    engine.reserve(size, 1).inspect(|object| engine.pool.cancel(object));
                    true
                }
                _ => engine.replace(actor, &mut objects),
            };
            if !is_going {
                return;
            }
        }
    }

    /// Opens and closes the pool, checks it, and reads the slots. Each object of the heap belongs to a slot.
    fn recover(&self, medium: Arc<SimMedium>) -> Result<Self::Contents, String> {
        let wrong = |error: ObjError| error.to_string();
        let pool = Pool::open(Arc::clone(&medium)).map_err(wrong)?;
        pool.close().map_err(wrong)?;
        if let Some(finding) = check(&*medium).first() {
            return Err(finding.to_string());
        }
        let view = ObjView::open(Arc::clone(&medium)).map_err(wrong)?;
        let table = view.state().root;
        let mut held = Vec::new();
        let mut contents = Vec::new();
        for slot in 0..SLOTS * THREADS {
            let at = PoolOffset::new(word(&medium, table.plus(slot * WORD)).map_err(wrong)?);
            let mut value = 0;
            if !at.is_null() {
                let object = view.object_at(at).map_err(wrong)?;
                value = object.type_number;
                for offset in (0..CONTENT).step_by(WORD as usize) {
                    if word(&medium, at.plus(offset)).map_err(wrong)? != value {
                        return Err(format!("the object at {at} has bytes of another one at {offset}"));
                    }
                }
                held.push(at);
            }
            contents.push((slot, value));
        }
        held.sort();
        let found: Result<Vec<_>, _> =
            view.objects().filter(|object| !matches!(object, Ok(object) if object.is_internal)).collect();
        let found: Vec<_> = found.map_err(wrong)?.into_iter().map(|object| object.at).collect();
        if found == held { Ok(contents) } else { Err(format!("objects at {found:?}, in slots {held:?}")) }
    }

    fn legal(&self, history: &HistoryPrefix<Write>) -> Self::Legal {
        let initial: Vec<(u64, u64)> = (0..SLOTS * THREADS).map(|slot| (slot, 0)).collect();
        Registers::new(&initial, history, |writes| Access {
            reads: Vec::new(),
            writes: writes.iter().map(|(key, value)| (*key, Some(*value))).collect(),
        })
    }

    fn check(&self, legal: &Self::Legal, contents: &Self::Contents) -> Result<(), Self::Mismatch> {
        legal.check(contents)
    }
}
