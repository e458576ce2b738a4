//! The protocol: bytes to validated values and back. Nothing here reads a socket.

pub(crate) mod command;
pub(crate) mod negotiation;
pub(crate) mod option;
pub(crate) mod reply;
pub(crate) mod wire;
