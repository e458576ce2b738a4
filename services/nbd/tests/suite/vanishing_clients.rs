//! Clients that leave in the middle, and clients that stay without a word.

use crate::client::{BLOCK, Form, SIZE, Served, WRITE};
use lode_testing::skip;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::sync::Arc;

/// Clients that say nothing after their handshake.
const IDLE: u64 = 1000;

#[test]
fn half_a_command_changes_nothing() {
    let served = Served::start();
    for form in [Form::Simple, Form::Extended] {
        let whole = served.client(form).command(WRITE, 0, 1, 0, BLOCK as u64, &[7; BLOCK]);
        for len in (0..40).chain([whole.len() - 1]) {
            let mut client = served.client(form);
            client.stream.write_all(&whole[..len]).unwrap();
        }
    }
    served.client(Form::Simple).write(SIZE - 512, &[1; BLOCK]);
    let device = Arc::clone(&served.device);
    // All connections have ended after it.
    served.server.stop().unwrap();
    assert_eq!(device.bytes()[..SIZE as usize - 512], [0; SIZE as usize - 512]);
}

#[test]
fn clients_that_vanish_with_requests_in_flight_harm_no_one() {
    let served = Served::start();
    let mut other = served.client(Form::Simple);
    served.device.shut(true);
    for number in 1..=4 {
        let mut client = served.client(Form::Structured);
        for cookie in 0..16 {
            client.send_write(0, cookie, number * 4096, &[number as u8; 4096]);
            client.send(0, 0, cookie, 0, SIZE);
        }
    }
    served.device.await_batch();
    served.device.shut(false);
    other.write(0, &[9; BLOCK]);
    assert_eq!(other.read(0, BLOCK), [9; BLOCK]);
    let device = Arc::clone(&served.device);
    served.server.stop().unwrap();
    for (number, blocks) in device.bytes().chunks(4096).enumerate().skip(1).take(4) {
        assert!(blocks.iter().all(|byte| [0, number as u8].contains(byte)));
    }
}

/// Each client of the test takes two descriptors.
#[test]
fn idle_connections_leave_room_for_others() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if allowed < 2 * IDLE + 200 {
        return skip("idle_connections_leave_room_for_others", format!("{allowed} descriptors are allowed"));
    }
    let served = Served::start();
    let mut idle: Vec<_> = (0..IDLE).map(|_| served.client(Form::Extended)).collect();
    let mut working = served.client(Form::Simple);
    for round in 1..=100 {
        working.write(0, &[round; BLOCK]);
        assert_eq!(working.read(0, BLOCK), [round; BLOCK]);
    }
    for client in idle.iter_mut().step_by(100) {
        assert_eq!(client.read(0, BLOCK), [100; BLOCK]);
    }
    served.server.stop().unwrap();
    assert!(idle.iter_mut().all(|client| client.is_ended()));
}
