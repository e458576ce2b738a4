//! Stale sockets are replaced, and nothing else is.

use crate::place::Place;
use lode_follow::{Connection, FollowError, Server};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

#[test]
fn stale_socket_is_replaced() {
    let place = Place::new();
    // A listener that is closed leaves its socket, as a killed process does.
    drop(UnixListener::bind(place.socket()).unwrap());
    assert!(Connection::open(place.path()).unwrap().is_none(), "nobody listens");
    let server = place.serve();
    drop(place.connect());
    drop(server);
    assert!(!place.socket().exists(), "the server removes its socket");
    assert!(Connection::open(place.path()).unwrap().is_none());
    // A pool that was closed is served again.
    let place = place.reopen();
    let server = place.serve();
    drop((place.connect(), server));
}

#[test]
fn other_files_are_left_alone() {
    let place = Place::new();
    let victim = place.folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let refused = |place: &Place| match Server::start(&place.pool) {
        Err(FollowError::Occupied { path }) => assert_eq!(path, place.socket()),
        other => panic!("{other:?}"),
    };
    fs::write(place.socket(), "a note").unwrap();
    refused(&place);
    assert_eq!(fs::read_to_string(place.socket()).unwrap(), "a note");
    assert!(Connection::open(place.path()).unwrap().is_none());
    fs::remove_file(place.socket()).unwrap();
    // Neither side follows a symbolic link, be it to a file, to nothing, or to another server's socket.
    let other = Place::new();
    let other_server = other.serve();
    for target in [&victim, Path::new("nothing"), &other.socket()] {
        symlink(target, place.socket()).unwrap();
        refused(&place);
        assert!(!matches!(Connection::open(place.path()), Ok(Some(_))));
        assert!(fs::symlink_metadata(place.socket()).unwrap().is_symlink());
        fs::remove_file(place.socket()).unwrap();
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    drop((other.connect(), other_server));
    // A server removes its own socket only.
    let server = place.serve();
    fs::remove_file(place.socket()).unwrap();
    let newer = UnixListener::bind(place.socket()).unwrap();
    drop(server);
    assert!(place.socket().exists());
    drop(newer);
}

#[test]
fn long_paths_are_served() {
    let place = Place::named(&"n".repeat(70));
    let deep = place.folder.path().join("d".repeat(200));
    fs::create_dir(&deep).unwrap();
    // Both sides resolve the link, so that they meet in the folder of the pool itself.
    let link = deep.join("link");
    symlink(place.path(), &link).unwrap();
    let server = place.serve();
    assert!(Connection::open(&link).unwrap().is_some());
    drop(server);
    let moved = deep.join("pool");
    fs::rename(place.path(), &moved).unwrap();
    let options = lode_pool::OpenOptions {
        durability: Some(lode_heap::Durability::None),
        ..lode_pool::OpenOptions::new(lode_pool::Access::ReadWrite)
    };
    drop(place.pool);
    let pool = std::sync::Arc::new(lode_heap::Pool::open(&moved, &options).unwrap());
    let server = Server::start(&pool).unwrap();
    assert!(server.path().as_os_str().len() > 200);
    assert!(Connection::open(&moved).unwrap().is_some());
    drop(server);
}

#[test]
fn server_that_can_not_be_says_why() {
    let place = Place::named(&"n".repeat(200));
    let refused = Server::start(&place.pool).unwrap_err();
    assert!(matches!(refused, FollowError::NameTooLong { .. }), "{refused}");
    assert!(Connection::open(place.path()).unwrap().is_none());
}
