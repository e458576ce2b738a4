//! What must not get into a pool, or out of a transaction, does not compile. Each file of `compile_fail/` is
//! named after the promise that it tries to break; beside it is what the compiler says.

#[test]
fn compile_fail() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
