//! The dialog of a check with its program: messages, questions, answers.

use super::outcome::{Outcome, Stop};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// The number of statuses that may wait for the program before a stage waits, too.
const WAITING_MAX: usize = 1 << 10;

/// The flags of pmempool_check_init(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(pub(crate) u32);

impl Flags {
    pub(crate) const REPAIR: u32 = 1 << 0;
    pub(crate) const DRY_RUN: u32 = 1 << 1;
    pub(crate) const ADVANCED: u32 = 1 << 2;
    pub(crate) const ALWAYS_YES: u32 = 1 << 3;
    pub(crate) const VERBOSE: u32 = 1 << 4;
    pub(crate) const FORMAT_STR: u32 = 1 << 5;

    /// Returns true if one of these flags is set.
    pub(crate) fn has(self, flags: u32) -> bool {
        self.0 & flags != 0
    }

    /// Returns true if repairs are kept.
    pub(crate) fn keeps_repairs(self) -> bool {
        self.has(Flags::REPAIR) && !self.has(Flags::DRY_RUN)
    }
}

/// A status that the program gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// A step of the check.
    Info(String),
    /// The reason why the check ends, or damage.
    Error(String),
    /// A repair that may be made. The program answers before it asks for the next status.
    Question(String),
}

/// An answer of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
    /// Neither yes nor no.
    Other,
}

impl Answer {
    /// Reads an answer; `None` for that of a program that gave none.
    pub(crate) fn of(text: Option<&[u8]>) -> Answer {
        match text {
            Some(b"yes") => Answer::Yes,
            Some(b"no") => Answer::No,
            _ => Answer::Other,
        }
    }
}

/// A handle of the dialog. The stages speak, and the calls of the program take what they say.
#[derive(Clone, Debug)]
pub(crate) struct Dialog {
    flags: Flags,
    said: Rc<RefCell<Said>>,
}

#[derive(Debug, Default)]
struct Said {
    infos: VecDeque<String>,
    error: Option<String>,
    questions: VecDeque<String>,
    /// Number of questions that are open: not asked, or asked and not answered.
    open: usize,
    answers: Vec<Answer>,
    outcome: Outcome,
    /// True if the program has refused a repair.
    is_refused: bool,
    /// The number of an error of the system that a message names.
    errno: Option<i32>,
}

impl Dialog {
    pub(crate) fn new(flags: Flags) -> Dialog {
        Dialog { flags, said: Rc::default() }
    }

    pub(crate) fn flags(&self) -> Flags {
        self.flags
    }

    /// Says what is done.
    pub(crate) fn info(&self, text: impl Into<String>) {
        if self.flags.has(Flags::VERBOSE) {
            self.said.borrow_mut().infos.push_back(text.into());
        }
    }

    /// Says what is done, in words that are made only if the program hears them.
    pub(crate) fn info_of(&self, text: impl FnOnce() -> String) {
        if self.flags.has(Flags::VERBOSE) {
            self.info(text());
        }
    }

    /// Waits until the program has seen most statuses, so that damage without end does not take memory without end.
    pub(crate) async fn room(&self) {
        if self.said.borrow().infos.len() >= WAITING_MAX {
            self.seen().await;
        }
    }

    /// Notes the number of an error of the system, which the program finds in errno.
    pub(crate) fn note_errno(&self, errno: i32) {
        self.said.borrow_mut().errno = Some(errno);
    }

    /// Takes the number that was noted.
    pub(crate) fn take_errno(&self) -> Option<i32> {
        self.said.borrow_mut().errno.take()
    }

    /// Says what is damaged. The check goes on.
    pub(crate) fn error(&self, text: impl Into<String>) {
        self.said.borrow_mut().error.get_or_insert(text.into());
    }

    /// Says why the check ends with this outcome.
    pub(crate) fn stop(&self, outcome: Outcome, text: impl Into<String>) -> Stop {
        self.error(text);
        Stop(outcome)
    }

    /// Says that the check ends because it needs a flag, which it got not.
    pub(crate) fn need_advanced(&self, prefix: &str, text: impl Into<String>) -> Stop {
        self.info(format!("{prefix}the following error can be fixed using PMEMPOOL_CHECK_ADVANCED flag"));
        self.stop(Outcome::CannotRepair, text)
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.said.borrow().outcome
    }

    pub(crate) fn set_outcome(&self, outcome: Outcome) {
        self.said.borrow_mut().outcome = outcome;
    }

    /// Asks questions, each a text of damage and of the repair. Returns an answer for each. Only for checks that repair.
    ///
    /// A bar separates damage from repair. A text without one is the repair alone.
    pub(crate) async fn ask(&self, questions: &[String]) -> Vec<Answer> {
        if self.flags.has(Flags::ALWAYS_YES) {
            for (damage, _) in questions.iter().filter_map(|text| text.split_once(".|")) {
                self.info(damage);
            }
            return vec![Answer::Yes; questions.len()];
        }
        {
            let mut said = self.said.borrow_mut();
            said.questions.extend(questions.iter().map(|text| text.replacen('|', " ", 1)));
            said.open += questions.len();
        }
        poll_fn(|_| match self.said.borrow().open {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        })
        .await;
        std::mem::take(&mut self.said.borrow_mut().answers)
    }

    /// Asks questions as [`ask`](Dialog::ask) does, and makes the repair of each one by `repair`, which gets its number.
    pub(crate) async fn ask_and_repair(
        &self,
        questions: &[String],
        mut repair: impl FnMut(usize) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        for (index, answer) in self.ask(questions).await.into_iter().enumerate() {
            self.agreed(answer)?;
            repair(index)?;
            self.set_outcome(Outcome::Repaired);
        }
        Ok(())
    }

    /// Ends the check unless the program agreed.
    pub(crate) fn agreed(&self, answer: Answer) -> Result<(), Stop> {
        match answer {
            Answer::Yes => Ok(()),
            Answer::No | Answer::Other => {
                self.said.borrow_mut().is_refused = true;
                Err(self.stop(Outcome::NotConsistent, "cannot complete repair, reverting changes"))
            }
        }
    }

    /// Returns true if the program has refused a repair: none is kept then.
    pub(crate) fn is_refused(&self) -> bool {
        self.said.borrow().is_refused
    }

    /// Waits until the program has seen all statuses.
    pub(crate) async fn seen(&self) {
        poll_fn(|_| {
            let said = self.said.borrow();
            if said.infos.is_empty() && said.error.is_none() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Returns the next status that waits for the program.
    pub(crate) fn take(&self) -> Option<Status> {
        let mut said = self.said.borrow_mut();
        let info = said.infos.pop_front().map(Status::Info);
        info.or_else(|| said.error.take().map(Status::Error))
            .or_else(|| said.questions.pop_front().map(Status::Question))
    }

    /// Takes the answer to the last question.
    pub(crate) fn answer(&self, answer: Answer) {
        {
            let mut said = self.said.borrow_mut();
            said.answers.push(answer);
            said.open = said.open.saturating_sub(1);
        }
        if answer == Answer::Other {
            self.info("Answer must be either yes or no");
        }
    }
}
