//! The end of a server.

use crate::client::{BLOCK, BLOCKS, Client, Form, Reply, SIZE, Served};
use lode_nbd::{Export, Listener, Server};
use lode_testing::volume::MemoryDevice;
use lode_volume::BlockDevice;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[test]
fn requests_in_hand_are_answered_before_the_end() {
    let served = Served::start();
    let device = Arc::clone(&served.device);
    let mut client = served.client(Form::Simple);
    let mut idle = served.client(Form::Simple);
    device.shut(true);
    client.send_write(0, 9, 0, &[7; BLOCK]);
    device.await_batch();
    let socket = served.socket();
    let stopping = thread::spawn(move || served.server.stop());
    assert!(idle.is_ended(), "the server has begun to stop");
    device.shut(false);
    assert_eq!(client.reply(0), Reply { cookie: 9, error: 0, data: vec![] });
    assert!(client.is_ended());
    stopping.join().unwrap().unwrap();
    assert_eq!(device.durable()[..BLOCK], [7; BLOCK], "the stop flushes");
    assert!(!socket.exists());
}

/// TCP drops what was sent when a socket is closed that has received more. Here the client has sent a thousand more commands.
#[test]
fn clients_of_tcp_get_the_last_replies() {
    let device = Arc::new(MemoryDevice::new(BLOCK, BLOCKS));
    let export = Export::new("disk", Arc::clone(&device) as Arc<dyn BlockDevice>, false).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let server = Server::start(vec![export], vec![tcp.into()]).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 28]).unwrap();
    let mut idle = TcpStream::connect(address).unwrap();
    idle.read_exact(&mut [0; 18]).unwrap();
    // The replies are more than the sockets hold, so the server waits for the client to take them.
    let read = |cookie: u64| {
        let head = [&0x2560_9513_u32.to_be_bytes()[..], &[0; 4], &cookie.to_be_bytes(), &[0; 8]].concat();
        [&head[..], &(SIZE as u32).to_be_bytes()].concat()
    };
    device.shut(true);
    let first: Vec<u8> = (0..64).flat_map(read).collect();
    stream.write_all(&first).unwrap();
    device.await_batch();
    let later: Vec<u8> = (64..1064).flat_map(read).collect();
    stream.write_all(&later).unwrap();
    let stopping = thread::spawn(move || server.stop());
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "the server has begun to stop");
    device.shut(false);
    // A slow client. The server has written all replies of the batch, and nothing keeps it but those.
    thread::sleep(Duration::from_millis(100));
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    let len = 16 + SIZE as usize;
    assert!(received.len() >= len && received.len().is_multiple_of(len), "{} bytes", received.len());
    for (cookie, reply) in received.chunks(len).enumerate() {
        assert_eq!(reply[8..16], (cookie as u64).to_be_bytes());
    }
    drop(stream);
    stopping.join().unwrap().unwrap();
}

#[test]
fn stop_ends_handshakes_and_idle_clients() {
    let served = Served::start();
    let (mut idle, mut greeted) = (served.client(Form::Simple), served.greeted());
    let mut silent = UnixStream::connect(served.socket()).unwrap();
    silent.read_exact(&mut [0; 18]).unwrap();
    served.server.stop().unwrap();
    assert!(idle.is_ended() && greeted.is_ended());
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
}

#[test]
fn failed_flush_is_the_result_of_the_stop() {
    let served = Served::start();
    served.client(Form::Simple).write(0, &[7; BLOCK]);
    served.device.fail_flushes();
    assert!(served.server.stop().is_err());
}

/// The sockets of a unit of systemd stay open when the service ends, and start it again.
#[test]
fn inherited_sockets_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let unix = UnixListener::bind(folder.path().join("s")).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let device = Arc::new(MemoryDevice::new(BLOCK, BLOCKS));
    for round in 0..2 {
        let export = Export::new("disk", Arc::clone(&device) as Arc<dyn BlockDevice>, false).unwrap();
        let listeners: [Listener; 2] = [unix.try_clone().unwrap().into(), tcp.try_clone().unwrap().into()];
        let server = Server::start(vec![export], listeners.into()).unwrap();
        let stream = UnixStream::connect(folder.path().join("s")).unwrap();
        let mut client = Client::greeted(stream, 3);
        client.choose(Form::Simple);
        client.write(0, &[round; SIZE as usize]);
        let mut greeting = [0; 18];
        TcpStream::connect(tcp.local_addr().unwrap()).unwrap().read_exact(&mut greeting).unwrap();
        assert!(greeting.starts_with(b"NBDMAGIC"));
        server.stop().unwrap();
    }
    assert!(folder.path().join("s").exists());
}
