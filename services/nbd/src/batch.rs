//! The commands that were received together, as requests of the device.

use crate::export::Export;
use crate::protocol::command::Action;
use crate::protocol::reply::{Errno, StatusExtent};
use lode_volume::{BlockError, BlockFault, Op, Request, VolumeError};
use std::ops::Range;
use std::sync::PoisonError;

/// Greatest number of extents in a reply to BLOCK_STATUS.
const EXTENTS_MAX: usize = 1024;

/// A command and its payload.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) cookie: u64,
    pub(crate) action: Action,
    pub(crate) is_fua: bool,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// The place of the payload of a write in the receive buffer.
    pub(crate) payload: Range<usize>,
}

/// The failure of a command.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) errno: Errno,
    pub(crate) message: String,
}

/// Result data of a command, apart from the bytes that it reads.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    Nothing,
    Extents(Vec<StatusExtent>),
}

/// The result of a command.
pub(crate) type Outcome = Result<Done, Failure>;

impl Failure {
    fn new(errno: Errno, message: impl Into<String>) -> Failure {
        Failure { errno, message: message.into() }
    }

    fn of_block(error: BlockError) -> Failure {
        let errno = match error.fault {
            BlockFault::ReadOnly => Errno::Permission,
            fault if fault.is_no_space() => Errno::NoSpace,
            _ => Errno::Io,
        };
        Failure::new(errno, error.to_string())
    }

    fn of_growth(error: &VolumeError) -> Failure {
        let errno = match error.cause() {
            VolumeError::FixedCapacity => Errno::NotSupported,
            VolumeError::Shrinks { .. } => Errno::Invalid,
            error if error.is_no_space() => Errno::NoSpace,
            error if error.is_too_large() => Errno::Invalid,
            _ => Errno::Io,
        };
        Failure::new(errno, error.to_string())
    }
}

/// A range of bytes, cut where blocks begin.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    /// A part of a block.
    head: Option<Part>,
    /// First block and number of the whole blocks.
    middle: (u64, u64),
    /// A part of the block after them.
    tail: Option<Part>,
}

/// A part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    block: u64,
    start: usize,
    end: usize,
}

impl Cut {
    fn new(offset: u64, len: u64, block_size: usize) -> Cut {
        let size = block_size as u64;
        let (end, first) = (offset + len, offset.div_ceil(size));
        let last = (end / size).max(first);
        let part = |block: u64, from: u64, to: u64| {
            let start = block * size;
            (from < to).then(|| Part { block, start: (from - start) as usize, end: (to - start) as usize })
        };
        let head =
            if offset.is_multiple_of(size) { None } else { part(first - 1, offset, end.min(first * size)) };
        let tail = if end > last * size { part(last, last * size, end) } else { None };
        Cut { head, middle: (first, last - first), tail }
    }

    fn is_whole(&self) -> bool {
        self.head.is_none() && self.tail.is_none()
    }
}

/// The bytes of a change.
#[derive(Clone, Copy)]
enum Content<'b> {
    Bytes(&'b [u8]),
    Zeros,
}

/// Runs commands on an export. Requests of whole blocks wait in `pending` and run as one batch of the device.
struct Runner<'b> {
    export: &'b Export,
    block_size: usize,
    pending: Vec<Request<'b>>,
    /// The command of each pending request.
    owners: Vec<usize>,
    outcomes: Vec<Outcome>,
}

/// Runs the commands in order, and returns the outcome of each. `received` has the payloads of writes; reads fill `arena` one
/// after the other, which has room for all of them.
///
/// # Cost
/// A batch of the device for all commands, and one more for each change or read of a part of a block, each flush and each
/// BLOCK_STATUS.
pub(crate) fn run(export: &Export, works: &[Work], received: &[u8], mut arena: &mut [u8]) -> Vec<Outcome> {
    let mut runner = Runner {
        export,
        block_size: export.device.block_size(),
        pending: Vec::with_capacity(works.len()),
        owners: Vec::with_capacity(works.len()),
        outcomes: (0..works.len()).map(|_| Ok(Done::Nothing)).collect(),
    };
    for (index, work) in works.iter().enumerate() {
        let block_size = runner.block_size;
        let cut = || Cut::new(work.offset, work.len, block_size);
        match work.action {
            Action::Read => {
                let cut = cut();
                let (into, rest) = arena.split_at_mut(work.len as usize);
                arena = rest;
                runner.read(index, &cut, into);
            }
            Action::Write => {
                let (cut, content) = (cut(), Content::Bytes(&received[work.payload.clone()]));
                runner.change(index, work, &cut, content);
            }
            Action::Zero { is_fast: true } if !runner.is_zero(&cut()) => {
                let failure = Failure::new(Errno::NotSupported, "zeros take as long as data");
                runner.outcomes[index] = Err(failure);
            }
            Action::Zero { .. } => {
                let cut = cut();
                runner.change(index, work, &cut, Content::Zeros);
            }
            Action::Trim => {
                // The parts of blocks at both ends keep their content.
                let (block, count) = cut().middle;
                if count > 0 {
                    runner.push(index, work, Op::Trim { block, count });
                }
            }
            Action::Flush => {
                runner.run_pending();
                if let Err(error) = export.device.flush() {
                    runner.outcomes[index] = Err(Failure::of_block(error));
                }
            }
            Action::Resize => {
                runner.run_pending();
                if let Err(error) = export.device.grow(work.offset) {
                    runner.outcomes[index] = Err(Failure::of_growth(&error));
                }
            }
            Action::Status { is_one } => {
                runner.run_pending();
                runner.outcomes[index] = runner.status(work, is_one);
            }
            Action::Refuse(errno) => runner.outcomes[index] = Err(refusal(errno)),
            Action::Cache | Action::Disconnect => {}
        }
    }
    runner.run_pending();
    runner.outcomes
}

fn refusal(errno: Errno) -> Failure {
    let message = match errno {
        Errno::Permission => "the export is read-only",
        Errno::NoSpace => "the range is not inside of the export",
        _ => "the command, its flags or its range are wrong",
    };
    Failure::new(errno, message)
}

impl<'b> Runner<'b> {
    fn push(&mut self, index: usize, work: &Work, op: Op<'b>) {
        let request = Request::new(op);
        self.pending.push(if work.is_fua { request.with_fua() } else { request });
        self.owners.push(index);
    }

    fn run_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let has_changes = self.pending.iter().any(|request| request.op.is_change());
        let shared = has_changes.then(|| self.export.partial.read().unwrap_or_else(PoisonError::into_inner));
        self.export.device.run(&mut self.pending);
        drop(shared);
        for (request, owner) in self.pending.drain(..).zip(self.owners.drain(..)) {
            if let Err(error) = request.result {
                self.outcomes[owner] = Err(Failure::of_block(error));
            }
        }
    }

    fn read(&mut self, index: usize, cut: &Cut, into: &'b mut [u8]) {
        if cut.is_whole() {
            self.pending.push(Request::new(Op::Read { block: cut.middle.0, into }));
            self.owners.push(index);
            return;
        }
        self.run_pending();
        if let Err(error) = self.read_parts(cut, into) {
            self.outcomes[index] = Err(Failure::of_block(error));
        }
    }

    fn read_parts(&self, cut: &Cut, into: &mut [u8]) -> Result<(), BlockError> {
        let mut block = vec![0; self.block_size];
        let head_len = cut.head.map_or(0, |part| part.end - part.start);
        let (head, rest) = into.split_at_mut(head_len);
        let (middle, tail) = rest.split_at_mut(cut.middle.1 as usize * self.block_size);
        for (part, into) in [(cut.head, head), (cut.tail, tail)] {
            if let Some(part) = part {
                self.read_block(part, &mut block)?;
                into.copy_from_slice(&block[part.start..part.end]);
            }
        }
        if middle.is_empty() {
            return Ok(());
        }
        let mut requests = [Request::new(Op::Read { block: cut.middle.0, into: middle })];
        self.export.device.run(&mut requests);
        requests[0].result
    }

    fn read_block(&self, part: Part, into: &mut [u8]) -> Result<(), BlockError> {
        let mut requests = [Request::new(Op::Read { block: part.block, into })];
        self.export.device.run(&mut requests);
        requests[0].result
    }

    fn change(&mut self, index: usize, work: &Work, cut: &Cut, content: Content<'b>) {
        if cut.is_whole() {
            let (block, count) = cut.middle;
            self.push(index, work, operation(content, block, count));
            return;
        }
        self.run_pending();
        if let Err(error) = self.change_parts(work, cut, content) {
            self.outcomes[index] = Err(Failure::of_block(error));
        }
    }

    /// Reads the blocks of which a part changes, and writes all blocks as one batch.
    fn change_parts(&self, work: &Work, cut: &Cut, content: Content<'_>) -> Result<(), BlockError> {
        let _alone = self.export.partial.write().unwrap_or_else(PoisonError::into_inner);
        let head_len = cut.head.map_or(0, |part| part.end - part.start);
        let middle_len = cut.middle.1 as usize * self.block_size;
        let mut edges = Vec::new();
        for (part, at) in [(cut.head, 0), (cut.tail, head_len + middle_len)] {
            let Some(part) = part else { continue };
            let mut block = vec![0; self.block_size];
            self.read_block(part, &mut block)?;
            let into = &mut block[part.start..part.end];
            match content {
                Content::Bytes(bytes) => into.copy_from_slice(&bytes[at..at + into.len()]),
                Content::Zeros => into.fill(0),
            }
            edges.push((part.block, block));
        }
        let (first, count) = cut.middle;
        let mut requests: Vec<_> = edges
            .iter()
            .map(|(block, bytes)| Request::new(Op::Write { block: *block, from: bytes }))
            .collect();
        if count > 0 {
            let middle = match content {
                Content::Bytes(bytes) => Content::Bytes(&bytes[head_len..head_len + middle_len]),
                Content::Zeros => Content::Zeros,
            };
            requests.push(Request::new(operation(middle, first, count)));
        }
        for request in &mut requests {
            request.is_fua = work.is_fua;
        }
        self.export.device.run(&mut requests);
        requests.into_iter().try_for_each(|request| request.result)
    }

    /// Returns true if the device knows that the range is zeros already.
    fn is_zero(&mut self, cut: &Cut) -> bool {
        self.run_pending();
        let (mut block, count) = cut.middle;
        let end = block + count + u64::from(cut.tail.is_some());
        block -= u64::from(cut.head.is_some());
        while block < end {
            match self.export.device.status(block, end - block) {
                Ok(extent) if extent.is_zero && extent.count > 0 => block += extent.count,
                _ => return false,
            }
        }
        true
    }

    fn status(&self, work: &Work, is_one: bool) -> Outcome {
        let size = self.block_size as u64;
        let end = work.offset + work.len;
        let extents_max = if is_one { 1 } else { EXTENTS_MAX };
        let mut extents: Vec<StatusExtent> = Vec::new();
        let mut at = work.offset;
        while at < end && extents.len() < extents_max {
            let block = at / size;
            let found = self.export.device.status(block, end.div_ceil(size) - block);
            let found = match found {
                Ok(found) => found,
                // The extents before it are an answer.
                Err(_) if !extents.is_empty() => break,
                Err(error) => return Err(Failure::of_block(error)),
            };
            let next = ((block + found.count.max(1)) * size).min(end);
            extents.push(StatusExtent { len: next - at, is_zero: found.is_zero });
            at = next;
        }
        Ok(Done::Extents(extents))
    }
}

fn operation(content: Content<'_>, block: u64, count: u64) -> Op<'_> {
    match content {
        Content::Bytes(from) => Op::Write { block, from },
        Content::Zeros => Op::Zero { block, count },
    }
}
