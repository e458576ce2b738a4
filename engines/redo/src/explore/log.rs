//! The log alone: transactions that write registers, which lie after it on the medium.

use crate::error::LogError;
use crate::log::{Log, LogArea};
use lode_layout::{PoolOffset, Record};
use lode_pmem::{Counter, Medium, Readable};
use lode_sim::oracle::{Access, RegisterMismatch, Registers};
use lode_sim::{Actor, HistoryPrefix, SimMedium, Subject};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const REGISTERS: u64 = 64;
const UUID: [u8; 16] = [7; 16];
/// Set in values that a transaction stores before its final ones. They must never be found.
const OVERWRITTEN: u64 = 1 << 63;
/// One in this many operations follows a checkpoint that its thread asks for.
const CHECKPOINT_ONE_IN: u8 = 24;

/// A log of some length, and the registers after it.
#[derive(Clone, Copy, Debug)]
pub struct LogSubject {
    /// Length of the medium in bytes.
    pub size: u64,
    /// Length of the log in bytes.
    pub log_len: u64,
}

/// The log while it is used, and locks for the registers.
#[derive(Debug)]
pub struct Engine {
    log: Log<Arc<SimMedium>>,
    locks: Vec<AtomicBool>,
    value: Counter,
}

/// The registers that a transaction writes, and the value that it stores in each.
#[derive(Clone, Debug)]
pub struct Write {
    registers: BTreeSet<u64>,
    value: u64,
}

impl LogSubject {
    fn area(&self) -> LogArea {
        LogArea { start: PoolOffset::new(0x4000), len: self.log_len }
    }

    /// Returns the offset of a register. Registers are spread over lines, and some share one.
    fn target(&self, register: u64) -> PoolOffset {
        self.area().start.plus(self.log_len + register * 24)
    }
}

impl Engine {
    fn lock(&self, medium: &SimMedium, registers: &BTreeSet<u64>) {
        for register in registers {
            let mut round = 0;
            // ORDER: acquires the stores of the last holder.
            while self.locks[*register as usize].swap(true, Ordering::AcqRel) {
                medium.relax(round);
                round += 1;
            }
        }
    }

    fn unlock(&self, registers: &BTreeSet<u64>) {
        for register in registers {
            // ORDER: releases this holder's write-backs.
            self.locks[*register as usize].store(false, Ordering::Release);
        }
    }
}

impl Subject for LogSubject {
    type Engine = Engine;
    type Operation = Write;
    type Contents = Vec<(u64, u64)>;
    type Legal = Registers<u64, u64>;
    type Mismatch = RegisterMismatch<u64, u64>;
    type Error = LogError;

    fn size(&self) -> u64 {
        self.size
    }

    fn format(&self, medium: Arc<SimMedium>) -> Result<(), LogError> {
        Log::format(&medium, self.area(), &UUID, [1, 1])?;
        // A log epoch before the explored one leaves records that must not be replayed.
        let (log, _) = Log::recover(medium, self.area(), UUID, [2, 2])?;
        for value in 1..20 {
            let mut record = Record::new();
            record.push_word(self.target(0), value << 32);
            log.commit(&mut record, &[])?;
        }
        let mut record = Record::new();
        record.push_word(self.target(0), 0);
        log.commit(&mut record, &[]).map(drop)
    }

    fn start(&self, medium: Arc<SimMedium>) -> Result<Engine, LogError> {
        let (log, _) = Log::recover(medium, self.area(), UUID, [3, 3])?;
        let locks = (0..REGISTERS).map(|_| AtomicBool::new(false)).collect();
        Ok(Engine { log, locks, value: Counter::new(1) })
    }

    fn run(&self, engine: &Engine, actor: &mut Actor<'_, Write>) {
        for _ in 0..actor.operations {
            if actor.rng.u8(..CHECKPOINT_ONE_IN) == 0 {
                // A failure shows in the next commit.
                let _ = engine.log.checkpoint();
            }
            let count = if actor.rng.u8(..4) == 0 { actor.rng.u64(8..40) } else { actor.rng.u64(1..4) };
            // Long records come close to the end of their ring, and fill it.
            let is_long = actor.rng.u8(..6) == 0;
            let words_min = if is_long { actor.rng.usize(..engine.log.record_words_max() - 90) } else { 0 };
            let registers: BTreeSet<u64> = (0..count).map(|_| actor.rng.u64(..REGISTERS)).collect();
            engine.lock(engine.log.medium(), &registers);
            let value = engine.value.add(1);
            let mut record = Record::new();
            while record.len() < words_min {
                let register = actor.rng.usize(..registers.len());
                let register = registers.iter().nth(register).expect("one of them");
                record.push_word(self.target(*register), value | OVERWRITTEN);
            }
            for register in &registers {
                record.push_word(self.target(*register), value);
            }
            let ticket = actor.begin(Write { registers: registers.clone(), value });
            match engine.log.commit(&mut record, &[]) {
                Ok(_) => actor.returned(ticket),
                Err(LogError::Poisoned) => actor.refused(ticket),
                Err(_) => actor.in_doubt(ticket),
            }
            engine.unlock(&registers);
        }
    }

    fn recover(&self, medium: Arc<SimMedium>) -> Result<Self::Contents, LogError> {
        let (log, _) = Log::recover(medium, self.area(), UUID, [4, 4])?;
        log.begin_epoch()?;
        let registers = |memory: &Readable| {
            (0..REGISTERS).map(|register| (register, memory.load8(self.target(register)))).collect()
        };
        Ok(log.medium().memory().reading(registers)?)
    }

    fn legal_after_kill(&self, history: &HistoryPrefix<Write>) -> Option<Self::Legal> {
        Some(self.legal(history))
    }

    fn legal(&self, history: &HistoryPrefix<Write>) -> Self::Legal {
        let initial: Vec<(u64, u64)> = (0..REGISTERS).map(|register| (register, 0)).collect();
        Registers::new(&initial, history, |write| Access {
            reads: Vec::new(),
            writes: write.registers.iter().map(|register| (*register, Some(write.value))).collect(),
        })
    }

    fn check(&self, legal: &Self::Legal, contents: &Self::Contents) -> Result<(), Self::Mismatch> {
        legal.check(contents)
    }
}
