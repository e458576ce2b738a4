//! Programs with random types store random content; later programs, with changed types, are refused or migrate it, and then
//! read what a model says.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod pool;

use fastrand::Rng;
use lode_typegen::content::Content;
use lode_typegen::node::Node;
use lode_typegen::step::Step;
use lode_typegen::types::Family;
use pool::Pool;

/// Objects in the content of a pool, about: a migration takes a few transactions.
const OBJECTS: usize = 2500;

/// A family with content, as each version of its program has it.
struct Trial {
    number: u64,
    family: Family,
    contents: Vec<Node>,
    random: Rng,
}

/// Returns the families whose programs were built, each with content.
fn trials() -> impl Iterator<Item = Trial> {
    let seed: u64 = env!("TYPEGEN_SEED").parse().unwrap();
    println!("LODE_SEED={seed}");
    let count: u64 = env!("TYPEGEN_FAMILIES").parse().unwrap();
    (0..count).map(move |number| {
        let seed = seed.wrapping_add(number);
        println!("family {number}, the first one of LODE_SEED={seed}");
        let (family, mut random) = (Family::new(seed), Rng::with_seed(seed ^ u64::MAX));
        let program = &family.versions[0];
        let mut contents = vec![Content::new(program, &mut random).part(&program.root(), OBJECTS)];
        for from in 0..family.versions.len() - 1 {
            contents.push(Step { family: &family, from }.migrated(&contents[from]));
        }
        Trial { number, family, contents, random }
    })
}

impl Trial {
    /// Makes a pool of the first version.
    fn pool(&self) -> Pool {
        Pool::make(self.number, &self.contents[0])
    }

    /// Compares all of a pool with the content of a version.
    fn check(&self, pool: &Pool, version: usize) {
        pool.assert_reads(version, &self.contents[version].to_string());
        pool.check(&self.family.versions[version], &self.contents[version]);
    }

    /// Checks that a program with the types of a version refuses a pool of another one, and names a type that differs.
    fn assert_refuses(&self, pool: &Pool, found: usize, (program, version): (&str, usize), action: &str) {
        let printed = pool.run(program, action);
        let [in_pool, in_program] =
            [found, version].map(|version| self.family.versions[version].declarations());
        for line in printed.lines() {
            let named = line.strip_prefix("OtherTypes ");
            let differs = named
                .is_some_and(|name| in_pool.contains_key(name) && in_pool.get(name) != in_program.get(name));
            assert!(differs, "{}, program {program}: {line}", pool.name());
        }
        assert_eq!(printed.lines().count(), if action == "open" { 2 } else { 1 });
    }

    /// Migrates a pool of a version to a later one.
    fn migrate(&self, pool: &Pool, [from, to]: [usize; 2], action: &str) {
        let converted: u64 = pool.run(to, action).trim_end().parse().unwrap();
        let kept = self.family.converted([from, to], &self.contents[to]);
        // Objects that their owners do not keep may be converted before they are freed.
        let is_right = if action == "migrate" { converted >= kept } else { converted == kept };
        assert!(is_right, "{}: {converted} objects instead of {kept}", pool.name());
        self.check(pool, to);
    }
}

#[test]
fn content_of_random_types_is_read_back() {
    for trial in trials() {
        trial.check(&trial.pool(), 0);
    }
}

#[test]
fn other_random_types_are_refused() {
    for trial in trials() {
        let pool = trial.pool();
        let before = pool.bytes();
        trial.assert_refuses(&pool, 0, ("types", 1), "read");
        pool.assert_reads(1, "NotMigrated");
        pool.assert_reads(2, "NotMigrated");
        assert!(pool.bytes() == before, "{}: a refusal changed the pool", pool.name());
        trial.assert_refuses(&pool, 0, ("types", 1), "open");
        trial.check(&pool, 0);
    }
}

#[test]
fn migrations_of_random_types_match_model() {
    for trial in trials() {
        let pool = trial.pool();
        let direct = pool.copy();
        trial.migrate(&pool, [0, 1], "migrate");
        trial.assert_refuses(&pool, 1, ("0", 0), "open");
        pool.assert_reads(2, "NotMigrated");
        trial.migrate(&pool, [1, 2], "migrate-at-once");
        trial.assert_refuses(&pool, 2, ("1", 1), "open");
        trial.migrate(&direct, [0, 2], "migrate");
    }
}

#[test]
fn killed_migrations_of_random_types_go_on() {
    let mut half_migrated = 0;
    for mut trial in trials() {
        let pool = trial.pool();
        let count = trial.family.converted([0, 1], &trial.contents[1]);
        let abort_at = if trial.random.bool() { count } else { trial.random.u64(1..=count) };
        if count == 0 {
            continue;
        }
        assert!(pool.is_killed_at(1, abort_at), "{}: the migration ended before", pool.name());
        if pool.is_half_migrated() {
            half_migrated += 1;
            trial.assert_refuses(&pool, 1, ("0", 0), "read");
        } else {
            pool.assert_reads(0, &trial.contents[0].to_string());
        }
        pool.assert_reads(1, "NotMigrated");
        pool.assert_reads(2, "NotMigrated");
        // The same program goes on, or a later one does, which is killed, too.
        let goal = 1 + usize::from(trial.random.bool());
        pool.is_killed_at(goal, trial.random.u64(1..=count));
        pool.run(goal, "migrate");
        trial.check(&pool, goal);
    }
    println!("{half_migrated} pools were half migrated");
}
