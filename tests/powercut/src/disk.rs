//! A disk with a volatile cache, which keeps apart written bytes and durable bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that a disk writes whole or not at all.
pub const SECTOR: usize = 512;

type Sector = [u8; SECTOR];

/// The power is off. The request was done in part, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerIsOff;

/// The requests to a disk until the power was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Number of writes.
    pub writes: u64,
    /// Number of requests to make all written bytes durable.
    pub persists: u64,
}

impl Requests {
    fn count(self) -> u64 {
        self.writes + self.persists
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} writes, {} syncs", self.writes, self.persists)
    }
}

/// The rule by which a power cut keeps or loses the sectors that were written after the last sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// None of the new versions is kept.
    Old,
    /// All of the newest versions are kept.
    New,
    /// Each sector has one of its versions, drawn from this seed.
    Sampled(u64),
}

/// A disk whose power can be cut.
#[derive(Debug)]
pub struct Disk {
    state: Mutex<State>,
    turned_off: Condvar,
}

#[derive(Debug)]
struct State {
    durable: Vec<u8>,
    /// The versions of each sector that was written since it was last durable, the newest last.
    unsynced: BTreeMap<usize, Vec<Sector>>,
    requests: Requests,
    /// Number of the request at which the power is cut, from 1.
    cut_at: u64,
    is_on: bool,
}

impl Disk {
    /// Returns a disk that holds `content` durably. Its power is cut in the middle of request number `cut_at`: a write
    /// is then done in any part, and a request to make bytes durable is not done.
    ///
    /// # Panics
    /// When the content is not whole sectors.
    pub fn new(content: Vec<u8>, cut_at: u64) -> Disk {
        assert!(content.len().is_multiple_of(SECTOR), "{} bytes are no whole sectors", content.len());
        let (unsynced, requests) = (BTreeMap::new(), Requests::default());
        let state = State { durable: content, unsynced, requests, cut_at, is_on: true };
        Disk { state: Mutex::new(state), turned_off: Condvar::new() }
    }

    /// Returns the length in bytes.
    pub fn size(&self) -> u64 {
        self.lock_state().durable.len() as u64
    }

    /// Reads the last written content of the `len` bytes from `at`, or less at the end of the disk.
    pub fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let state = self.lock_state();
        let size = state.durable.len();
        let start = usize::try_from(at).map_or(size, |at| at.min(size));
        let range = start..size.min(start.saturating_add(len));
        let mut bytes = state.durable[range.clone()].to_vec();
        for (number, versions) in state.unsynced.range(range.start / SECTOR..range.end.div_ceil(SECTOR)) {
            let begin = number * SECTOR;
            let (from, to) = (begin.max(range.start), (begin + SECTOR).min(range.end));
            if let Some(newest) = versions.last() {
                bytes[from - range.start..to - range.start]
                    .copy_from_slice(&newest[from - begin..to - begin]);
            }
        }
        bytes
    }

    /// Writes `bytes`. This alone does not make them durable.
    ///
    /// # Errors
    /// The power is off. It may have been cut in the middle of this write.
    ///
    /// # Panics
    /// When the range is not on the disk.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), PowerIsOff> {
        let mut state = self.begin_request()?;
        state.requests.writes += 1;
        state.write(at as usize, bytes);
        self.end_request(&mut state)
    }

    /// Makes all written bytes durable.
    ///
    /// # Errors
    /// The power is off, and the written bytes are durable or not.
    pub fn persist(&self) -> Result<(), PowerIsOff> {
        let mut state = self.begin_request()?;
        state.requests.persists += 1;
        self.end_request(&mut state)?;
        state.persist();
        Ok(())
    }

    /// Waits until the power is off. Returns false if it is still on after `timeout`.
    pub fn wait_until_off(&self, timeout: Duration) -> bool {
        let on = |state: &mut State| state.is_on;
        let waited = self.turned_off.wait_timeout_while(self.lock_state(), timeout, on);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_on
    }

    /// Cuts the power now, between two requests.
    pub fn turn_off(&self) {
        self.lock_state().is_on = false;
        self.turned_off.notify_all();
    }

    /// Returns true if the power is on.
    pub fn is_on(&self) -> bool {
        self.lock_state().is_on
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Requests {
        self.lock_state().requests
    }

    /// Returns the number of sectors that were written and are not durable.
    pub fn sectors_in_doubt(&self) -> usize {
        self.lock_state().unsynced.len()
    }

    /// Returns the content of the disk after the power comes back.
    pub fn image(&self, survival: Survival) -> Vec<u8> {
        let state = self.lock_state();
        let mut image = state.durable.clone();
        let mut random = fastrand::Rng::with_seed(match survival {
            Survival::Sampled(seed) => seed,
            Survival::Old | Survival::New => 0,
        });
        // Few sectors new, half of them, or most of them: each share finds other bugs.
        let share = [0.1, 0.5, 0.9][random.usize(..3)];
        for (number, versions) in &state.unsynced {
            let newest = versions.len() - 1;
            let version = match survival {
                Survival::Old => None,
                Survival::New => Some(newest),
                Survival::Sampled(_) => (random.f64() < share).then(|| random.usize(..=newest)),
            };
            if let Some(version) = version {
                image[number * SECTOR..][..SECTOR].copy_from_slice(&versions[version]);
            }
        }
        image
    }

    fn begin_request(&self) -> Result<MutexGuard<'_, State>, PowerIsOff> {
        let state = self.lock_state();
        if state.is_on { Ok(state) } else { Err(PowerIsOff) }
    }

    /// Ends a request. Cuts the power if this was the chosen request.
    fn end_request(&self, state: &mut State) -> Result<(), PowerIsOff> {
        if state.requests.count() < state.cut_at {
            return Ok(());
        }
        state.is_on = false;
        self.turned_off.notify_all();
        Err(PowerIsOff)
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.durable.len(), "a write behind the end of the disk");
        let mut done = 0;
        while done < bytes.len() {
            let (number, offset) = ((at + done) / SECTOR, (at + done) % SECTOR);
            let part = (SECTOR - offset).min(bytes.len() - done);
            let mut sector = self.newest(number);
            sector[offset..offset + part].copy_from_slice(&bytes[done..done + part]);
            self.unsynced.entry(number).or_default().push(sector);
            done += part;
        }
    }

    fn newest(&self, number: usize) -> Sector {
        let unsynced = self.unsynced.get(&number).and_then(|versions| versions.last());
        unsynced.copied().unwrap_or_else(|| {
            let mut sector = [0; SECTOR];
            sector.copy_from_slice(&self.durable[number * SECTOR..][..SECTOR]);
            sector
        })
    }

    fn persist(&mut self) {
        for (number, versions) in std::mem::take(&mut self.unsynced) {
            if let Some(newest) = versions.last() {
                self.durable[number * SECTOR..][..SECTOR].copy_from_slice(newest);
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::collections::BTreeSet;

    fn zeros(sectors: usize, cut_at: u64) -> Disk {
        Disk::new(vec![0; sectors * SECTOR], cut_at)
    }

    #[test]
    fn unsynced_sectors_have_any_version() {
        let disk = zeros(3, 5);
        disk.write(0, &[1; SECTOR]).unwrap();
        disk.persist().unwrap();
        disk.write(SECTOR as u64 - 1, &[2; 2]).unwrap();
        disk.write(SECTOR as u64, &[3; 1]).unwrap();
        assert_eq!(disk.persist(), Err(PowerIsOff));
        assert_eq!(disk.write(0, &[9]), Err(PowerIsOff));
        assert_eq!(disk.sectors_in_doubt(), 2);
        assert_eq!(disk.requests(), Requests { writes: 3, persists: 2 });

        let ends = |image: &[u8]| [image[0], image[SECTOR - 1], image[SECTOR], image[2 * SECTOR]];
        assert_eq!(ends(&disk.image(Survival::Old)), [1, 1, 0, 0]);
        assert_eq!(ends(&disk.image(Survival::New)), [1, 2, 3, 0]);
        let sampled: BTreeSet<_> = (0..100).map(|seed| ends(&disk.image(Survival::Sampled(seed)))).collect();
        let all = [1, 2].into_iter().flat_map(|end| [0, 2, 3].map(|start| [1, end, start, 0])).collect();
        assert_eq!(sampled, all);
    }

    #[test]
    fn write_at_power_cut_is_partial() {
        let disk = zeros(2, 1);
        assert_eq!(disk.write(0, &[1; 2 * SECTOR]), Err(PowerIsOff));
        assert!(!disk.is_on() && disk.wait_until_off(Duration::ZERO));
        let images: BTreeSet<_> = (0..100).map(|seed| disk.image(Survival::Sampled(seed))).collect();
        assert_eq!(images.len(), 4);
    }

    #[test]
    fn reads_return_last_write() {
        let disk = zeros(3, u64::MAX);
        disk.write(500, &[1; 600]).unwrap();
        disk.write(700, &[2; 1]).unwrap();
        let mut expected = vec![0; 3 * SECTOR];
        expected[500..1100].fill(1);
        expected[700] = 2;
        for (at, len) in [(0, 3 * SECTOR), (499, 3), (511, 2), (1099, 2), (1000, 5000), (3 * SECTOR, 1)] {
            let end = expected.len().min(at + len);
            assert_eq!(disk.read(at as u64, len), expected[at..end], "{len} bytes at {at}");
        }
        assert_eq!(disk.read(u64::MAX, 10), []);
    }
}
