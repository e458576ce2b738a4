//! A key-value service: a thread for each connection, all on one store.
//!
//! ```text
//! cargo run --example key_value_service -- 127.0.0.1:7000 stones.lode     # serves until it is killed
//! cargo run --example key_value_service                                   # serves itself, and checks the answers
//! ```
//!
//! A request is a line: `PUT key value`, `GET key`, `DEL key`, `ADD key number` or `LIST prefix`. `PUT`, `DEL` and `ADD`
//! are durable when they are answered. Connections that write at once share the wait for the disk.

use lodestone::{Error, Result, Store, TreeDef};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

const VALUES: TreeDef<String, String> = TreeDef::new("values");

/// Returns the answer to a request.
fn answer(store: &Store, request: &str) -> Result<String> {
    let words: Vec<&str> = request.splitn(3, ' ').collect();
    match words[..] {
        ["PUT", key, value] => {
            let replaced = store.put(VALUES, key, value)?;
            Ok(if replaced { "replaced" } else { "added" }.to_owned())
        }
        ["GET", key] => Ok(store.get(VALUES, key)?.unwrap_or_else(|| "-".to_owned())),
        ["DEL", key] => Ok(if store.delete(VALUES, key)? { "deleted" } else { "-" }.to_owned()),
        ["ADD", key, more] => {
            let more: i64 = more.parse().map_err(Error::other)?;
            // Serializable: two connections that add at once lose nothing.
            store.write(|tx| {
                let values = tx.tree(VALUES)?;
                let old = values.get(key)?.map_or(Ok(0), |old| old.parse::<i64>()).map_err(Error::other)?;
                let new = (old + more).to_string();
                values.put(key, &new)?;
                Ok(new)
            })
        }
        // A snapshot: the keys of one moment, however many there are.
        ["LIST", prefix] => store.read(|view| {
            let pairs = view.tree(VALUES)?.prefix(prefix);
            let pairs = pairs.map(|pair| pair.map(|(key, value)| format!("{key}={value}")));
            Ok(pairs.collect::<Result<Vec<_>>>()?.join(" "))
        }),
        _ => Err(Error::other("requests are PUT, GET, DEL, ADD and LIST")),
    }
}

fn serve_connection(store: &Store, connection: TcpStream) -> io::Result<()> {
    let mut replies = connection.try_clone()?;
    for request in BufReader::new(connection).lines() {
        let reply = answer(store, &request?).unwrap_or_else(|error| format!("error: {error}"));
        writeln!(replies, "{reply}")?;
    }
    Ok(())
}

fn serve(store: &Store, listener: &TcpListener) {
    for connection in listener.incoming().flatten() {
        let store = store.clone();
        // A connection that breaks ends its thread alone.
        thread::spawn(move || serve_connection(&store, connection));
    }
}

/// Sends requests over one connection, and returns the answers.
fn ask(address: std::net::SocketAddr, requests: &[String]) -> io::Result<Vec<String>> {
    let mut connection = TcpStream::connect(address)?;
    let mut replies = BufReader::new(connection.try_clone()?).lines();
    let mut ask = |request: &String| {
        writeln!(connection, "{request}")?;
        replies.next().ok_or(io::ErrorKind::UnexpectedEof)?
    };
    requests.iter().map(&mut ask).collect()
}

/// Serves a store in a folder that is then removed, and checks the answers to several connections.
pub(crate) fn check_answers() -> Result<()> {
    let folder = tempfile::tempdir().map_err(Error::other)?;
    let store = Store::options().durability(lodestone::Durability::None).open(folder.path().join("store"))?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Error::other)?;
    let address = listener.local_addr().map_err(Error::other)?;
    thread::spawn(move || serve(&store, &listener));
    thread::scope(|scope| {
        for client in 0..4 {
            scope.spawn(move || {
                let add: Vec<String> = (0..50).map(|_| "ADD visits 1".to_owned()).collect();
                let put = format!("PUT client{client} stone{client}");
                ask(address, &[&[put], &add[..]].concat()).expect("answers");
            });
        }
    });
    let requests = ["GET visits", "GET nothing", "LIST client", "DEL client0", "GET client0", "PUT"];
    let answers = ask(address, &requests.map(str::to_owned)).map_err(Error::other)?;
    let list = "client0=stone0 client1=stone1 client2=stone2 client3=stone3";
    let refused = "error: requests are PUT, GET, DEL, ADD and LIST";
    assert_eq!(answers, ["200", "-", list, "deleted", "-", refused]);
    Ok(())
}

pub(crate) fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [address, path] => {
            let store = Store::open(path)?;
            let listener = TcpListener::bind(address.as_str()).map_err(Error::other)?;
            serve(&store, &listener);
            Ok(())
        }
        _ => check_answers(),
    }
}
