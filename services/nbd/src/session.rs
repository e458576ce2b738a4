//! A connection: the handshake, then batches of commands until the client leaves.

use crate::batch::{self, Done, Outcome, Work};
use crate::export::Export;
use crate::inbox::Inbox;
use crate::protocol::command::{Action, CommandHeader, Limits};
use crate::protocol::negotiation::{Negotiation, Next};
use crate::protocol::option::OptionHeader;
use crate::protocol::reply::{ReplyForm, ReplyTo};
use crate::protocol::wire::{
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, IHAVEOPT, NBDMAGIC, OPTION_MAX, PAYLOAD_MAX,
};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::ops::Range;

/// Greatest number of options of a handshake.
const OPTIONS_MAX: usize = 1024;
/// Greatest number of commands of a batch: twice as many parts of a reply are written by one system call.
const BATCH_MAX: usize = 512;
/// Greatest number of bytes that the commands of a batch read, unless one alone reads more.
const READ_MAX: u64 = 4 << 20;

/// The negotiated properties of a connection.
struct Session<'e> {
    export: &'e Export,
    form: ReplyForm,
    has_context: bool,
}

/// The commands that were received together.
#[derive(Default)]
struct Batch {
    works: Vec<Work>,
    /// Bytes of the receive buffer that they took, and of payloads that are not received.
    consumed: u64,
    /// Bytes that they read.
    read: u64,
    /// True if the connection ends after them.
    is_last: bool,
}

/// A piece of the replies of a batch.
enum Piece {
    Head(Range<usize>),
    Data(Range<usize>),
}

/// Serves the client at the other end of `stream` until it ends the connection or breaks the protocol. The first export has
/// the empty name, too.
///
/// It sets no time limit, unlike a [`Server`](crate::Server): a client that is silent keeps the thread.
///
/// # Errors
/// Those of the stream.
///
/// # Durability
/// As of a [`Server`](crate::Server) on the same exports: a flush covers what any connection was answered.
pub fn serve_stream(exports: &[Export], stream: &mut (impl Read + Write)) -> io::Result<()> {
    match Connection::negotiate(exports, stream)? {
        Some(connection) => connection.transmit(stream, &|| false),
        None => Ok(()),
    }
}

/// A connection after the handshake.
pub(crate) struct Connection<'e> {
    session: Session<'e>,
    /// The client may have sent commands before it was told that the handshake is over.
    inbox: Inbox,
}

impl<'e> Connection<'e> {
    /// Runs the handshake. Returns `None` if no export was chosen.
    ///
    /// # Errors
    /// Those of the stream.
    pub(crate) fn negotiate(
        exports: &'e [Export],
        stream: &mut (impl Read + Write),
    ) -> io::Result<Option<Connection<'e>>> {
        let mut inbox = Inbox::new();
        let session = negotiate(exports, &mut inbox, stream)?;
        Ok(session.map(|session| Connection { session, inbox }))
    }

    /// Runs commands until the client ends the connection, breaks the protocol, or `is_stopped` returns true after a batch.
    ///
    /// # Errors
    /// Those of the stream.
    pub(crate) fn transmit(
        self,
        stream: &mut (impl Read + Write),
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let Connection { session, mut inbox } = self;
        let (mut heads, mut arena) = (Vec::new(), Vec::new());
        while !is_stopped() {
            let needed = session.needed(inbox.waiting());
            if !inbox.fill(needed, stream)? {
                break;
            }
            let batch = session.collect(inbox.waiting());
            if arena.len() < batch.read as usize {
                arena = vec![0; batch.read as usize];
            }
            let outcomes = batch::run(session.export, &batch.works, inbox.waiting(), &mut arena);
            let pieces = session.encode(&batch.works, outcomes, &mut heads);
            send(&pieces, &heads, &arena, stream)?;
            if arena.len() > READ_MAX as usize {
                // The next command may be far away.
                arena = Vec::new();
            }
            inbox.consume(batch.consumed);
            if batch.is_last {
                break;
            }
        }
        Ok(())
    }
}

fn negotiate<'e, S: Read + Write>(
    exports: &'e [Export],
    inbox: &mut Inbox,
    stream: &mut S,
) -> io::Result<Option<Session<'e>>> {
    let mut out = NBDMAGIC.to_be_bytes().to_vec();
    out.extend_from_slice(&IHAVEOPT.to_be_bytes());
    out.extend_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    stream.write_all(&out)?;
    if !inbox.fill(4, stream)? {
        return Ok(None);
    }
    let flags = u32::from_be_bytes(inbox.waiting()[..4].try_into().map_err(io::Error::other)?);
    inbox.consume(4);
    if flags & !u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) != 0 {
        return Ok(None);
    }
    let mut negotiation = Negotiation::new(exports.iter().map(Export::info).collect(), flags);
    for _ in 0..OPTIONS_MAX {
        if !inbox.fill(OptionHeader::LEN, stream)? {
            return Ok(None);
        }
        let header = inbox.waiting()[..OptionHeader::LEN].try_into().map_err(io::Error::other)?;
        let Some(header) = OptionHeader::decode(header) else { return Ok(None) };
        inbox.consume(OptionHeader::LEN as u64);
        out.clear();
        let next = if header.len > OPTION_MAX {
            inbox.consume(u64::from(header.len));
            negotiation.refuse_long(header.code, &mut out)
        } else {
            let len = header.len as usize;
            if !inbox.fill(len, stream)? {
                return Ok(None);
            }
            let next = negotiation.option(header.code, &inbox.waiting()[..len], &mut out);
            inbox.consume(u64::from(header.len));
            next
        };
        stream.write_all(&out)?;
        match next {
            Next::Option => {}
            Next::End => return Ok(None),
            Next::Transmission(index) => {
                return Ok(exports.get(index).map(|export| Session {
                    export,
                    form: negotiation.form(),
                    has_context: negotiation.has_context(index),
                }));
            }
        }
    }
    Ok(None)
}

impl Session<'_> {
    fn is_extended(&self) -> bool {
        self.form == ReplyForm::Extended
    }

    /// Returns the number of bytes that the first command needs, as far as it is known.
    fn needed(&self, waiting: &[u8]) -> usize {
        let len = CommandHeader::len(self.is_extended());
        let header = waiting.get(..len).and_then(|bytes| CommandHeader::decode(bytes, self.is_extended()));
        match header.map(|header| header.payload(self.is_extended())) {
            Some(payload) if payload <= u64::from(PAYLOAD_MAX) => len + payload as usize,
            _ => len,
        }
    }

    /// Takes the whole commands at the front of `waiting`.
    fn collect(&self, waiting: &[u8]) -> Batch {
        let header_len = CommandHeader::len(self.is_extended());
        let limits = Limits {
            capacity: self.export.device.capacity(),
            is_read_only: self.export.is_read_only(),
            has_context: self.has_context,
        };
        let mut batch = Batch::default();
        while batch.works.len() < BATCH_MAX {
            let at = batch.consumed as usize;
            let Some(bytes) = waiting.get(at..at + header_len) else { break };
            let Some(header) = CommandHeader::decode(bytes, self.is_extended()) else {
                batch.is_last = true;
                break;
            };
            let payload = header.payload(self.is_extended());
            let start = at + header_len;
            let is_short = ((waiting.len() - start) as u64) < payload;
            let action = header.action(self.is_extended(), limits);
            if is_short && payload <= u64::from(PAYLOAD_MAX) {
                break;
            }
            if action == Action::Read {
                if batch.read > 0 && batch.read + header.len > READ_MAX {
                    break;
                }
                batch.read += header.len;
            }
            batch.consumed = (start as u64).saturating_add(payload);
            if action == Action::Disconnect {
                batch.is_last = true;
                break;
            }
            let end = if action == Action::Write { start + payload as usize } else { start };
            batch.works.push(Work {
                cookie: header.cookie,
                action,
                is_fua: header.is_fua() || self.export.is_durable_when_answered(),
                offset: header.offset,
                len: header.len,
                payload: start..end,
            });
            if header.hides_payload(self.is_extended()) {
                batch.is_last = true;
                break;
            }
            if is_short {
                // What is not received is thrown away as it comes.
                break;
            }
        }
        batch
    }

    /// Encodes the replies into `heads`, and returns the pieces to send.
    fn encode(&self, works: &[Work], outcomes: Vec<Outcome>, heads: &mut Vec<u8>) -> Vec<Piece> {
        heads.clear();
        let mut pieces = Vec::new();
        let (mut sent, mut read) = (0, 0);
        for (work, outcome) in works.iter().zip(outcomes) {
            let to = ReplyTo { form: self.form, cookie: work.cookie, offset: work.offset };
            let data = read..read + if work.action == Action::Read { work.len as usize } else { 0 };
            read = data.end;
            match outcome {
                Err(failure) => to.error(heads, failure.errno, &failure.message),
                Ok(Done::Extents(extents)) => to.status(heads, &extents),
                Ok(Done::Nothing) if work.action == Action::Read => {
                    to.data(heads, work.len);
                    pieces.push(Piece::Head(sent..heads.len()));
                    pieces.push(Piece::Data(data));
                    sent = heads.len();
                }
                Ok(Done::Nothing) => to.done(heads),
            }
        }
        if sent < heads.len() {
            pieces.push(Piece::Head(sent..heads.len()));
        }
        pieces
    }
}

/// Sends the replies of a batch by one system call, if the stream takes them all at once.
fn send(pieces: &[Piece], heads: &[u8], arena: &[u8], stream: &mut impl Write) -> io::Result<()> {
    let slice = |piece: &Piece| match piece {
        Piece::Head(range) => IoSlice::new(&heads[range.clone()]),
        Piece::Data(range) => IoSlice::new(&arena[range.clone()]),
    };
    let mut slices: Vec<_> = pieces.iter().map(slice).collect();
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        match stream.write_vectored(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(sent) => IoSlice::advance_slices(&mut rest, sent),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
