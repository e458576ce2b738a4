//! A process that may not read the pool gets nothing from its server.

use crate::place::{HELLO, Place, read_to_end, send};
use lode_follow::{Connection, FollowError, Response};
use rustix::fs::{Mode, OFlags, open};
use std::fs::{self, File, Permissions};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NOBODY: u32 = 65534;

#[test]
fn other_proofs_are_refused() {
    let place = Place::new();
    let server = place.serve();
    let flags = |flags| open(place.path(), flags, Mode::empty()).unwrap();
    let other = tempfile::tempfile().unwrap();
    let pool = File::open(place.path()).unwrap();
    let (by_path, write_only) = (flags(OFlags::PATH), flags(OFlags::WRONLY));
    let folder = File::open(place.folder.path()).unwrap();
    let many = [pool.as_fd(), pool.as_fd(), pool.as_fd()];
    let proofs: [&[_]; 6] =
        [&[], &[other.as_fd()], &[by_path.as_fd()], &[write_only.as_fd()], &[folder.as_fd()], &many];
    for (number, proof) in proofs.into_iter().enumerate() {
        let stream = UnixStream::connect(place.socket()).unwrap();
        send(&stream, HELLO, proof);
        let answer = read_to_end(&stream);
        let refused = Response::read(&mut &answer[8..]).unwrap();
        assert!(matches!(refused, Some(Response::Failed { .. })), "proof {number}: {refused:?}");
        assert_eq!(place.pool.heap().snapshot_stats().open, 0);
    }
    // Another protocol, and half a hello.
    for hello in [&b"lodestn\x02"[..], &HELLO[..4]] {
        let stream = UnixStream::connect(place.socket()).unwrap();
        send(&stream, hello, &[pool.as_fd()]);
        assert_eq!(read_to_end(&stream)[..8], HELLO[..], "and no welcome");
        assert_eq!(place.pool.heap().snapshot_stats().open, 0);
    }
    drop((place.connect(), server));
}

#[test]
#[ignore = "the process that another test starts"]
fn reader_process() {
    let path = PathBuf::from(std::env::var_os("LODE_TEST_POOL").expect("started by another test"));
    match Connection::open(&path) {
        Ok(Some(connection)) => println!("keys: {}", connection.count(connection.root()).unwrap()),
        Ok(None) => println!("not served"),
        Err(FollowError::Io { op, errno, .. }) => println!("{op}: {errno}"),
        Err(error) => println!("{error}"),
    }
}

/// Runs this program, copied to where anybody can run it, as another user.
fn read_as_nobody(program: &Path, pool: &Path) -> String {
    let output: Output = Command::new(program)
        .args(["--exact", "readers_prove_their_right::reader_process", "--ignored", "--nocapture"])
        .env("LODE_TEST_POOL", pool)
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn other_users_need_the_right_to_read() {
    if !rustix::process::geteuid().is_root() {
        return lode_testing::skip(
            "other_users_need_the_right_to_read",
            "only root can run a program as another user",
        );
    }
    let place = Place::new();
    place.put(1, b"secret");
    let folder = place.folder.path();
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let serve_with = |mode| {
        fs::set_permissions(place.path(), Permissions::from_mode(mode)).unwrap();
        place.serve()
    };
    let socket_mode = || fs::symlink_metadata(place.socket()).unwrap().permissions().mode() & 0o777;

    let server = serve_with(0o600);
    assert_eq!(socket_mode(), 0o600);
    assert!(read_as_nobody(&program, place.path()).contains("connect: 13"), "refused by the socket's mode");
    // Also when the socket lets everybody in.
    fs::set_permissions(place.socket(), Permissions::from_mode(0o666)).unwrap();
    assert!(read_as_nobody(&program, place.path()).contains("open: 13"), "refused by the mode of the pool");
    drop(server);

    let server = serve_with(0o640);
    assert_eq!(socket_mode(), 0o660);
    drop(server);

    let server = serve_with(0o644);
    assert_eq!(socket_mode(), 0o666);
    assert!(read_as_nobody(&program, place.path()).contains("keys: 1"), "the right to read is enough");
    drop(server);
}

/// Where others may put files, but not replace ours, their socket is not trusted.
#[test]
fn socket_of_another_user_is_not_trusted() {
    if !rustix::process::geteuid().is_root() {
        return lode_testing::skip("socket_of_another_user_is_not_trusted", "only root can give files away");
    }
    let place = Place::new();
    let server = place.serve();
    let sticky = |mode| fs::set_permissions(place.folder.path(), Permissions::from_mode(mode)).unwrap();
    std::os::unix::fs::lchown(place.socket(), Some(NOBODY), None).unwrap();
    sticky(0o1777);
    let refused = Connection::open(place.path());
    assert!(matches!(refused, Err(FollowError::Untrusted { uid: NOBODY, .. })), "{refused:?}");
    // Who may replace the pool may as well put a socket there.
    sticky(0o777);
    drop((place.connect(), server));
}
