//! The handshake after the first words: options and their replies, until the client chooses an export.

use crate::protocol::option::{InfoQuery, MetaQuery};
use crate::protocol::reply::ReplyForm;
use crate::protocol::wire::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, FLAG_CAN_MULTI_CONN, FLAG_HAS_FLAGS, FLAG_NO_ZEROES, FLAG_READ_ONLY,
    FLAG_SEND_CACHE, FLAG_SEND_DF, FLAG_SEND_FAST_ZERO, FLAG_SEND_FLUSH, FLAG_SEND_FUA, FLAG_SEND_RESIZE,
    FLAG_SEND_TRIM, FLAG_SEND_WRITE_ZEROES, INFO_BLOCK_SIZE, INFO_EXPORT, INFO_NAME, OPT_ABORT,
    OPT_EXPORT_NAME, OPT_EXTENDED_HEADERS, OPT_GO, OPT_INFO, OPT_LIST, OPT_LIST_META_CONTEXT,
    OPT_SET_META_CONTEXT, OPT_STRUCTURED_REPLY, OPTION_REPLY_MAGIC, PAYLOAD_MAX, REP_ACK,
    REP_ERR_EXT_HEADER_REQD, REP_ERR_INVALID, REP_ERR_TOO_BIG, REP_ERR_UNKNOWN, REP_ERR_UNSUP, REP_INFO,
    REP_META_CONTEXT, REP_SERVER,
};

/// Zeros after the reply to EXPORT_NAME, for clients that want them.
const ZEROES: usize = 124;
/// Preferred size of a request where the device's block size is no power of two, in bytes.
const PREFERRED: u32 = 4096;
const ASKED_TWICE: &[u8] = b"the option was accepted already";

/// Properties of an export for its clients.
#[derive(Clone, Debug)]
pub(crate) struct ExportInfo {
    pub(crate) name: Vec<u8>,
    /// Size in bytes.
    pub(crate) size: u64,
    /// Size of the device's blocks in bytes.
    pub(crate) block_size: usize,
    pub(crate) is_read_only: bool,
    pub(crate) can_grow: bool,
}

/// The step after an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another option.
    Option,
    /// Commands for the export with this index.
    Transmission(usize),
    /// The end of the connection.
    End,
}

/// The state of a handshake.
#[derive(Debug)]
pub(crate) struct Negotiation {
    exports: Vec<ExportInfo>,
    has_no_zeroes: bool,
    form: ReplyForm,
    /// Index of the export for which the client chose `base:allocation`.
    context: Option<usize>,
}

impl Negotiation {
    /// Begins with the client's flags. The first export has the empty name, too.
    pub(crate) fn new(exports: Vec<ExportInfo>, client_flags: u32) -> Negotiation {
        let has_no_zeroes = client_flags & u32::from(FLAG_NO_ZEROES) != 0;
        Negotiation { exports, has_no_zeroes, form: ReplyForm::Simple, context: None }
    }

    /// Returns the negotiated form of replies.
    pub(crate) fn form(&self) -> ReplyForm {
        self.form
    }

    /// Returns true if the client chose `base:allocation` for the export with this index.
    pub(crate) fn has_context(&self, export: usize) -> bool {
        self.context == Some(export)
    }

    /// Handles an option, and appends the reply.
    pub(crate) fn option(&mut self, code: u32, data: &[u8], out: &mut Vec<u8>) -> Next {
        match code {
            OPT_EXPORT_NAME => return self.export_name(data, out),
            OPT_ABORT => {
                reply(out, code, REP_ACK, &[]);
                return Next::End;
            }
            OPT_LIST if data.is_empty() => {
                for export in &self.exports {
                    let mut server = (export.name.len() as u32).to_be_bytes().to_vec();
                    server.extend_from_slice(&export.name);
                    reply(out, code, REP_SERVER, &server);
                }
                reply(out, code, REP_ACK, &[]);
            }
            OPT_INFO | OPT_GO => return self.info(code, data, out),
            OPT_STRUCTURED_REPLY if data.is_empty() => match self.form {
                ReplyForm::Simple => self.choose_form(code, ReplyForm::Structured, out),
                ReplyForm::Structured => reply(out, code, REP_ERR_INVALID, ASKED_TWICE),
                ReplyForm::Extended => reply(out, code, REP_ERR_EXT_HEADER_REQD, &[]),
            },
            OPT_EXTENDED_HEADERS if data.is_empty() => match self.form {
                ReplyForm::Simple | ReplyForm::Structured => {
                    self.choose_form(code, ReplyForm::Extended, out);
                }
                ReplyForm::Extended => reply(out, code, REP_ERR_INVALID, ASKED_TWICE),
            },
            OPT_LIST_META_CONTEXT | OPT_SET_META_CONTEXT => self.meta_context(code, data, out),
            OPT_LIST | OPT_STRUCTURED_REPLY | OPT_EXTENDED_HEADERS => {
                reply(out, code, REP_ERR_INVALID, b"the option has no data");
            }
            _ => reply(out, code, REP_ERR_UNSUP, &[]),
        }
        Next::Option
    }

    /// Handles an option whose data is too long to be read, and appends the reply.
    pub(crate) fn refuse_long(&mut self, code: u32, out: &mut Vec<u8>) -> Next {
        match code {
            // A client reads any answer to it as an export.
            OPT_EXPORT_NAME => return Next::End,
            OPT_SET_META_CONTEXT => self.context = None,
            _ => {}
        }
        reply(out, code, REP_ERR_TOO_BIG, b"the option is too long");
        Next::Option
    }

    fn choose_form(&mut self, code: u32, form: ReplyForm, out: &mut Vec<u8>) {
        self.form = form;
        reply(out, code, REP_ACK, &[]);
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        match self.exports.iter().position(|export| export.name == name) {
            None if name.is_empty() && !self.exports.is_empty() => Some(0),
            found => found,
        }
    }

    fn export_name(&self, name: &[u8], out: &mut Vec<u8>) -> Next {
        // With extended headers, a client must use GO. This option has no form of an error.
        if self.form == ReplyForm::Extended {
            return Next::End;
        }
        let Some(index) = self.find(name) else { return Next::End };
        let export = &self.exports[index];
        out.extend_from_slice(&export.size.to_be_bytes());
        out.extend_from_slice(&export.flags(self.form).to_be_bytes());
        if !self.has_no_zeroes {
            out.extend_from_slice(&[0; ZEROES]);
        }
        Next::Transmission(index)
    }

    fn info(&mut self, code: u32, data: &[u8], out: &mut Vec<u8>) -> Next {
        let Some(query) = InfoQuery::decode(data) else {
            reply(out, code, REP_ERR_INVALID, b"the option is malformed");
            return Next::Option;
        };
        let Some(index) = self.find(query.name) else {
            reply(out, code, REP_ERR_UNKNOWN, b"there is no such export");
            return Next::Option;
        };
        let export = &self.exports[index];
        let mut info = INFO_EXPORT.to_be_bytes().to_vec();
        info.extend_from_slice(&export.size.to_be_bytes());
        info.extend_from_slice(&export.flags(self.form).to_be_bytes());
        reply(out, code, REP_INFO, &info);
        if query.wanted.contains(&INFO_NAME) {
            let mut info = INFO_NAME.to_be_bytes().to_vec();
            info.extend_from_slice(&export.name);
            reply(out, code, REP_INFO, &info);
        }
        if query.wanted.contains(&INFO_BLOCK_SIZE) {
            let mut info = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
            for size in export.block_sizes() {
                info.extend_from_slice(&size.to_be_bytes());
            }
            reply(out, code, REP_INFO, &info);
        }
        reply(out, code, REP_ACK, &[]);
        if code == OPT_GO { Next::Transmission(index) } else { Next::Option }
    }

    fn meta_context(&mut self, code: u32, data: &[u8], out: &mut Vec<u8>) {
        let is_list = code == OPT_LIST_META_CONTEXT;
        if !is_list {
            // Whatever the answer is, the choice before is given up.
            self.context = None;
        }
        let Some(query) = MetaQuery::decode(data) else {
            return reply(out, code, REP_ERR_INVALID, b"the option is malformed");
        };
        if !is_list && self.form == ReplyForm::Simple {
            return reply(out, code, REP_ERR_INVALID, b"negotiate structured replies first");
        }
        let Some(index) = self.find(query.name) else {
            return reply(out, code, REP_ERR_UNKNOWN, b"there is no such export");
        };
        let is_chosen = |wanted: &&[u8]| *wanted == BASE_ALLOCATION || is_list && *wanted == b"base:";
        if query.queries.iter().any(is_chosen) || is_list && query.queries.is_empty() {
            let mut context = BASE_ALLOCATION_ID.to_be_bytes().to_vec();
            context.extend_from_slice(BASE_ALLOCATION);
            reply(out, code, REP_META_CONTEXT, &context);
            if !is_list {
                self.context = Some(index);
            }
        }
        reply(out, code, REP_ACK, &[]);
    }
}

impl ExportInfo {
    /// Returns the transmission flags.
    fn flags(&self, form: ReplyForm) -> u16 {
        let mut flags =
            FLAG_HAS_FLAGS | FLAG_SEND_FLUSH | FLAG_SEND_FUA | FLAG_CAN_MULTI_CONN | FLAG_SEND_CACHE;
        if form != ReplyForm::Simple {
            flags |= FLAG_SEND_DF;
        }
        if self.is_read_only {
            flags | FLAG_READ_ONLY
        } else {
            flags |= FLAG_SEND_TRIM | FLAG_SEND_WRITE_ZEROES | FLAG_SEND_FAST_ZERO;
            if self.can_grow { flags | FLAG_SEND_RESIZE } else { flags }
        }
    }

    /// Returns the least, the preferred and the greatest size of a request in bytes.
    fn block_sizes(&self) -> [u32; 3] {
        let preferred = match u32::try_from(self.block_size) {
            Ok(size) if size.is_power_of_two() && (512..=PAYLOAD_MAX).contains(&size) => size,
            _ => PREFERRED,
        };
        [1, preferred, PAYLOAD_MAX]
    }
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}
