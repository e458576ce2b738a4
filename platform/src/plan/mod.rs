//! Plans: the steps that give a machine the requested namespaces, the result, and the data that is lost.
//!
//! A plan has no rules of its own. It fulfils each request on a copy of the machine with the code that later executes
//! the plan, so every plan can be executed.
//!
//! ```text
//!   wish        a requested namespace                    assignment  requests by socket
//!   trial       makes a namespace on a copy              group       modules of a socket with one goal
//!   step        an action       command  its command for ipmctl, ndctl or cxl
//!   loss, note  lost data, and remarks                   table       use of the capacity afterwards
//!   impossible  the reason of a failure, and the nearest request that can be fulfilled
//!   real        plans for a real machine, as far as its kernel shows it
//! ```

pub(crate) mod amount;
mod assignment;
mod command;
mod group;
mod impossible;
mod loss;
mod note;
mod real;
mod step;
mod table;
mod text;
mod trial;
mod wish;

pub use impossible::{Impossible, Obstacle, Unusable};
pub use loss::Loss;
pub use note::Note;
pub use real::{CxlRegion, plan as plan_real};
pub use step::Step;
pub use table::{Holding, Row, Table};
pub use wish::{PlanRequest, Rest, Wish};

use crate::error::PlatformError;
use crate::goal::{GoalRequest, PersistentKind, Targets};
use crate::machine::{Handle, Health};
use crate::platform::Platform;
use assignment::{Assignment, SocketPlan};
use std::collections::BTreeSet;
use trial::Uuids;
use uuid::Uuid;

/// The steps that give a machine the requested namespaces.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The steps, in this order.
    pub steps: Vec<Step>,
    /// The data that is lost.
    pub losses: Vec<Loss>,
    /// Remarks for the user.
    pub notes: Vec<Note>,
    /// Use of the capacity after the last step.
    pub table: Table,
}

impl Platform {
    /// Plans the steps to the requested namespaces. `uuids` generates unused UUIDs.
    ///
    /// # Errors
    /// [`Impossible`](PlatformError::Impossible): a request can't be fulfilled, with the reason.
    ///
    /// # Cost
    /// Makes each namespace, and partitions each socket with requests, a few times in DRAM.
    pub fn plan(
        &self,
        request: &PlanRequest,
        uuids: &mut dyn FnMut() -> Uuid,
    ) -> Result<Plan, PlatformError> {
        let sockets = self.sockets_of(request, uuids)?;
        let mut assignment = Assignment::new(self, &sockets, request.rest.is_some());
        // Requests with a size precede those for the maximum size, then requests for one socket those for any socket.
        let mut wishes: Vec<&Wish> = request.wishes.iter().collect();
        wishes.sort_by_key(|wish| (wish.namespace.size.is_none(), wish.socket.is_none()));
        for wish in wishes {
            let before = assignment.clone();
            if let Err(error) = assignment.add(wish, uuids) {
                return Err(self.impossible(&before, wish, error, uuids));
            }
        }
        assignment.give_rest(request.rest, uuids);
        let (steps, after) = self.carry_out(&assignment, uuids).map_err(|error| {
            let obstacle = Obstacle::Rule(Box::new(error));
            PlatformError::Impossible(Box::new(Impossible { wish: None, obstacle, nearest: None }))
        })?;
        let mut losses = Loss::between(self, &after);
        losses.extend(steps.iter().filter_map(|step| match step {
            Step::DeleteGoals { modules } => Some(Loss::Goals { modules: modules.clone() }),
            _ => None,
        }));
        Ok(Plan { losses, notes: self.notes(request, &assignment, &after), table: after.table(), steps })
    }

    /// Executes a plan. The result is the plan's table if the machine did not change since the plan was made.
    ///
    /// # Errors
    /// A step is impossible because the machine has changed.
    pub fn follow(&mut self, plan: &Plan, uuids: &mut dyn FnMut() -> Uuid) -> Result<(), PlatformError> {
        plan.steps.iter().try_for_each(|step| step.run(self, uuids))
    }

    /// Returns the sockets that a plan applies to.
    fn sockets_of(&self, request: &PlanRequest, uuids: Uuids<'_>) -> Result<Vec<u16>, PlatformError> {
        let known = self.machine.sockets();
        let named: BTreeSet<u16> = match request.wishes.as_slice() {
            [] => request.sockets.iter().copied().collect(),
            wishes if wishes.iter().any(|wish| wish.socket.is_none()) => BTreeSet::new(),
            wishes => wishes.iter().filter_map(|wish| wish.socket).collect(),
        };
        let all_named = request.wishes.iter().filter_map(|wish| wish.socket).chain(named.iter().copied());
        for socket in all_named {
            if !known.contains(&socket) {
                let wish = request.wishes.iter().find(|wish| wish.socket == Some(socket));
                return Err(self.no_socket(socket, wish, request.rest.is_some(), uuids));
            }
        }
        Ok(if named.is_empty() { known } else { named.into_iter().collect() })
    }

    /// Returns the steps that perform the assignment, and the machine after them.
    fn carry_out(
        &self,
        assignment: &Assignment<'_>,
        uuids: Uuids<'_>,
    ) -> Result<(Vec<Step>, Platform), PlatformError> {
        let mut steps = Vec::new();
        let mut after = self.clone();
        let changed = || assignment.sockets.values().flat_map(|plan| &plan.groups);
        let modules: Vec<Handle> = changed().flat_map(|group| group.modules.iter().copied()).collect();
        for region in self.regions() {
            if !modules.iter().any(|module| region.has(*module)) {
                continue;
            }
            for one in self.namespaces(&region).into_iter().filter(|one| one.uuid.is_some()) {
                let (name, mode) = (one.device(), one.mode());
                steps.push(Step::DestroyNamespace { name, mode, size: one.size });
            }
        }
        let pending: Vec<Handle> =
            modules.iter().copied().filter(|module| self.state.goal(*module).is_some()).collect();
        if !pending.is_empty() {
            steps.push(Step::DeleteGoals { modules: pending });
        }
        let torn = self.torn_modules(assignment);
        if !torn.is_empty() {
            // A goal must include all modules of a set, and these sets are split between goals. So a first goal
            // dissolves them.
            let kind = PersistentKind::AppDirectNotInterleaved;
            let targets = Targets { modules: torn, ..Targets::default() };
            let request = GoalRequest { targets, kind, ..GoalRequest::default() };
            steps.extend([Step::CreateGoals { request }, Step::Reboot]);
        }
        steps.extend(self.requests(assignment).into_iter().map(|request| Step::CreateGoals { request }));
        if !modules.is_empty() {
            steps.push(Step::Reboot);
        }
        steps.iter().try_for_each(|step| step.run(&mut after, uuids))?;
        for wish in assignment.sockets.values().flat_map(|plan| &plan.wishes) {
            let made = after.grant(wish, uuids)?;
            let name = made.namespace.device();
            steps.push(Step::CreateNamespace { wanted: made.wanted, socket: made.socket, name });
        }
        Ok((steps, after))
    }

    /// Returns the usable modules of each socket that has a set with modules in several groups.
    fn torn_modules(&self, assignment: &Assignment<'_>) -> Vec<Handle> {
        let is_torn = |plan: &SocketPlan| {
            let group_of = |module: Handle| plan.groups.iter().position(|one| one.modules.contains(&module));
            let mut sets = self.state.sets.iter();
            plan.groups.len() > 1
                && sets.any(|set| {
                    let groups = set.members.iter().map(|member| group_of(member.module));
                    groups.collect::<BTreeSet<_>>().len() > 1
                })
        };
        let torn = assignment.sockets.values().filter(|plan| is_torn(plan));
        torn.flat_map(|plan| plan.modules.iter().copied()).collect()
    }

    /// Returns the goals of all groups. Equal goals for whole sockets are merged into one.
    fn requests(&self, assignment: &Assignment<'_>) -> Vec<GoalRequest> {
        let mut requests: Vec<GoalRequest> = Vec::new();
        for (socket, plan) in &assignment.sockets {
            for group in &plan.groups {
                let mut request = group.request();
                if self.is_whole(*socket, plan) {
                    request.targets = Targets { modules: Vec::new(), sockets: vec![*socket] };
                    let same = |other: &&mut GoalRequest| {
                        let targets = request.targets.clone();
                        !other.targets.sockets.is_empty()
                            && GoalRequest { targets, ..(**other).clone() } == request
                    };
                    if let Some(other) = requests.iter_mut().find(same) {
                        other.targets.sockets.push(*socket);
                        continue;
                    }
                }
                requests.push(request);
            }
        }
        let all: Vec<u16> = self.machine.sockets();
        let has_modules = |socket: &u16| {
            self.machine
                .modules
                .iter()
                .any(|one| one.handle.socket() == *socket && one.health != Health::NonFunctional)
        };
        let all: Vec<u16> = all.into_iter().filter(has_modules).collect();
        for request in requests.iter_mut().filter(|request| request.targets.sockets == all) {
            request.targets.sockets.clear();
        }
        requests
    }

    /// Returns true if the socket has one group, and a goal for the socket includes the same modules.
    fn is_whole(&self, socket: u16, plan: &SocketPlan) -> bool {
        let on = |handle: Handle| handle.socket() == socket;
        let alive = self.machine.modules.iter().filter(|one| one.health != Health::NonFunctional);
        let all = alive.filter(|module| on(module.handle)).count();
        plan.groups.len() == 1 && plan.groups[0].modules.len() == all
    }
}

impl GoalRequest {
    /// Describes the mapping of the modules.
    pub(crate) fn kind_words(&self) -> &'static str {
        match self.kind {
            PersistentKind::AppDirect => "interleaved",
            PersistentKind::AppDirectNotInterleaved => "each module by itself",
        }
    }
}
