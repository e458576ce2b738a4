//! A work queue: no job is lost, and none is done twice, whatever crashes.
//!
//! ```text
//!   add      jobs: number -> text        the number comes after all others
//!   take     jobs -> taken, in one transaction
//!   finish   taken -> results, in one transaction
//!   start    taken -> jobs: what a crash has interrupted is done again
//! ```

use lodestone::{Durability, Error, Result, Store, TreeDef};
use std::path::Path;
use std::thread;

const JOBS: TreeDef<u64, String> = TreeDef::new("jobs");
const TAKEN: TreeDef<u64, String> = TreeDef::new("taken");
/// The number of letters of each job, by its text.
const RESULTS: TreeDef<String, u64> = TreeDef::new("results");

/// A queue that several threads add to and take from.
struct Queue {
    store: Store,
}

impl Queue {
    /// Opens a queue. Jobs that were taken and not finished are in the queue again.
    fn open(path: &Path) -> Result<Queue> {
        let store = Store::options().durability(Durability::None).open(path)?;
        store.write(|tx| {
            let jobs = tx.tree(JOBS)?;
            for job in tx.tree(TAKEN)?.extract_if(.., |_, _| true) {
                let (number, text) = job?;
                jobs.put(number, text)?;
            }
            tx.tree(RESULTS).map(drop)
        })?;
        Ok(Queue { store })
    }

    fn add(&self, text: &str) -> Result<u64> {
        self.store.write(|tx| {
            let [jobs, taken] = [tx.tree(JOBS)?, tx.tree(TAKEN)?];
            let last = jobs.last()?.max(taken.last()?);
            let number = last.map_or(0, |(number, _)| number + 1);
            jobs.put(number, text)?;
            Ok(number)
        })
    }

    fn take(&self) -> Result<Option<(u64, String)>> {
        self.store.write(|tx| {
            let Some((number, text)) = tx.tree(JOBS)?.pop_first()? else { return Ok(None) };
            tx.tree(TAKEN)?.put(number, &text)?;
            Ok(Some((number, text)))
        })
    }

    fn finish(&self, number: u64, result: u64) -> Result<()> {
        self.store.write(|tx| {
            let text = tx.tree(TAKEN)?.remove(number)?;
            let text = text.ok_or_else(|| Error::other("the job is finished already"))?;
            tx.tree(RESULTS)?.entry(&text)?.or_insert(result)?;
            Ok(())
        })
    }
}

pub(crate) fn main() -> Result<()> {
    let folder = tempfile::tempdir().map_err(Error::other)?;
    let path = folder.path().join("queue");
    let queue = Queue::open(&path)?;
    let texts: Vec<String> = (1..=60).map(|letters| "x".repeat(letters)).collect();
    thread::scope(|scope| {
        for part in texts.chunks(20) {
            let queue = &queue;
            scope.spawn(move || {
                for text in part {
                    queue.add(text).expect("added");
                }
            });
        }
    });
    // One worker stops in the middle of a job, as in a crash.
    let (interrupted, _) = queue.take()?.ok_or_else(|| Error::other("no job"))?;
    drop(queue);
    let queue = Queue::open(&path)?;
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((number, text)) = queue.take().expect("a job") {
                    queue.finish(number, text.len() as u64).expect("finished");
                }
            });
        }
    });
    assert!(queue.finish(interrupted, 0).is_err_and(|error| error.is_other()));
    let results = queue.store.read(|view| view.tree(RESULTS)?.iter().collect::<Result<Vec<_>>>())?;
    assert!(results.iter().map(|(text, _)| text).eq(&texts), "each job was done");
    assert!(results.iter().all(|(text, letters)| text.len() as u64 == *letters));
    println!("{} jobs done", results.len());
    queue.store.close()
}
