//! A pool that programs make and use, each in a process of its own.

use lode_fsck::check_pool;
use lode_heap::{
    Access, Durability, OpenOptions, Pool as HeapPool, TypedDamage, TypedPlace, TypedSurvey, TypedVisitor,
};
use lode_index::{StoreLayout, visit_map};
use lode_layout::{PoolType, Shape, TypeId, TypeTable};
use lode_typegen::declarations::Declarations;
use lode_typegen::listing::Listing;
use lode_typegen::node::Node;
use lode_typegen::types::Program;
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// The signal of an abort.
const SIGABRT: i32 = 6;

/// A pool of the programs of a family.
pub(crate) struct Pool {
    family: u64,
    folder: TempDir,
}

impl Pool {
    /// Lets the first version make a pool with this content.
    pub(crate) fn make(family: u64, content: &Node) -> Pool {
        let pool = Pool { family, folder: tempfile::tempdir().unwrap() };
        let mut child = pool.command(0, "make").stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(content.to_string().as_bytes()).unwrap();
        pool.succeeded(child.wait_with_output().unwrap());
        pool
    }

    /// Returns a copy.
    pub(crate) fn copy(&self) -> Pool {
        let copy = Pool { family: self.family, folder: tempfile::tempdir().unwrap() };
        fs::copy(self.path(), copy.path()).unwrap();
        copy
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    /// Returns its name for messages.
    pub(crate) fn name(&self) -> String {
        format!("family {}", self.family)
    }

    /// Returns all bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    fn command(&self, program: impl Display, action: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_typegen"));
        command.args([self.family.to_string(), program.to_string(), action.to_owned()]).arg(self.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[track_caller]
    fn succeeded(&self, output: Output) -> String {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {}\n{errors}", self.name(), output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns what a program prints.
    #[track_caller]
    pub(crate) fn run(&self, program: impl Display, action: &str) -> String {
        self.succeeded(self.command(program, action).output().unwrap())
    }

    /// Lets a program migrate, and abort at a conversion. Returns false if it ended before.
    pub(crate) fn is_killed_at(&self, program: usize, conversion: u64) -> bool {
        let output = self.command(program, "migrate").arg(conversion.to_string()).output().unwrap();
        if output.status.signal() == Some(SIGABRT) {
            let report = self.report();
            assert!(!report.is_damaged(), "{}: {report}", self.name());
            return true;
        }
        self.succeeded(output);
        false
    }

    /// Compares the content that a program reads, or its refusal, with what is wanted.
    #[track_caller]
    pub(crate) fn assert_reads(&self, program: impl Display + Copy, want: &str) {
        let read = self.run(program, "read");
        let read = read.trim_end();
        let name = self.name();
        assert!(read == want, "{name}, program {program} reads\n{read}\nand this is wanted\n{want}");
    }

    fn report(&self) -> lode_heap::check::Report {
        let view = lode_pool::map_unchecked(&self.path(), &OpenOptions::new(Access::ReadOnly)).unwrap();
        check_pool(Arc::new(view), &[&StoreLayout])
    }

    fn open(&self) -> HeapPool {
        let options =
            OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(Access::ReadOnly) };
        HeapPool::open(&self.path(), &options).unwrap()
    }

    /// Returns true if a migration is not finished.
    pub(crate) fn is_half_migrated(&self) -> bool {
        let pool = self.open();
        TypedSurvey::open(pool.heap()).unwrap().unwrap().is_half_migrated()
    }

    /// Checks the pool without a program: it is sound, no object is lost, and it has this content.
    #[track_caller]
    pub(crate) fn check(&self, program: &Program, content: &Node) {
        let (name, report) = (self.name(), self.report());
        assert!(report.is_clean() && report.traced, "{name}: {report}");
        let pool = self.open();
        let survey = TypedSurvey::open(pool.heap()).unwrap().unwrap();
        assert!(!survey.is_half_migrated(), "{name}");
        assert_eq!(declarations(survey.table()), program.declarations(), "{name}");
        let mut found = Values::default();
        survey.with_maps(visit_map).visit(&mut found);
        found.lines.sort();
        let want = Listing::of(program, content);
        let differs = found.lines.iter().zip(&want).find(|(found, want)| found != want);
        assert!(differs.is_none(), "{name}: found {differs:?} wanted");
        assert_eq!(found.lines.len(), want.len(), "{name}");
    }
}

/// Returns the structs and enums of a pool, as `lode pool types` prints them.
fn declarations(table: &TypeTable) -> Declarations {
    let declared = |(id, ty): (TypeId, &PoolType)| {
        let (Shape::Struct { name, .. } | Shape::Enum { name, .. }) = &ty.shape else { return None };
        let is_own = !name.starts_with('(') && !name.starts_with("Option<");
        is_own.then(|| (name.clone(), (ty.size as usize, table.rows(id))))
    };
    table.types().filter_map(declared).collect()
}

/// The values of a pool, as `lode pool dump --typed` prints them.
#[derive(Default)]
struct Values {
    lines: Vec<String>,
}

impl TypedVisitor for Values {
    fn object(&mut self, _: &TypedPlace<'_>) -> bool {
        true
    }

    fn value(&mut self, place: &TypedPlace<'_>, text: &dyn Fn() -> String) {
        self.lines.push(format!("{} {}", place.path(), text()));
    }

    fn damage(&mut self, place: &TypedPlace<'_>, damage: TypedDamage) {
        panic!("{}: {}", place.path(), damage.means());
    }
}
