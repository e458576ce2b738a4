//! The examples run, and find what they expect.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[allow(dead_code, reason = "its main reads arguments, and those here are of the test harness")]
#[path = "../examples/key_value_service.rs"]
mod key_value_service;
#[path = "../examples/own_engine.rs"]
mod own_engine;
#[path = "../examples/typed_shop.rs"]
mod typed_shop;
#[path = "../examples/work_queue.rs"]
mod work_queue;

#[test]
fn key_value_service_answers() {
    key_value_service::check_answers().unwrap();
}

#[test]
fn work_queue_does_each_job_once() {
    work_queue::main().unwrap();
}

#[test]
fn typed_shop_fills_or_refuses_each_order() {
    typed_shop::main().unwrap();
}

#[test]
fn own_engine_survives_power_cuts() {
    own_engine::main();
}
