//! How a session and an agent come to know each other. No I/O: bytes go in and out.
//!
//! ```text
//! session                                        agent
//! hello: "PLUMB" "S" version (2 bytes)   ->
//! record: Noise message 1 (psk, e)       ->             over TCP only
//!                                        <-      hello: "PLUMB" "A" version
//!                                        <-      record: Noise message 2 (e, ee)
//! record: an empty sealed message        ->
//! ```
//!
//! The pattern is `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s` (Noise protocol framework, revision 34,
//! §9): both ends prove that they have the key, and keys of the connection are fresh at both ends.
//! A recorded message 1 gets an answer, but only the owner of its ephemeral key can seal the third
//! message, so a replay is never admitted. Both hellos are the prologue. A hello never changes its
//! form: a different version is reported in plain text.

use super::key::{Key, Named};
use super::seal::{LENGTH_BYTES, Seal, whole};
use snow::{Builder, HandshakeState};
use std::rc::Rc;
use thiserror::Error;

/// Version of what is said after the hello. Counted up with every change.
pub const VERSION: u16 = 4;

/// Bytes of a hello.
pub const HELLO_BYTES: usize = 8;
const MAGIC: &[u8; 5] = b"PLUMB";

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Bytes of a handshake message: an ephemeral key and the tag of nothing.
const MESSAGE_BYTES: usize = 48;
/// Bytes of an empty sealed message.
const EMPTY_BYTES: usize = 16;
/// Bytes shown of what is no hello.
const SHOWN_BYTES: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A session, which asks.
    Session,
    /// An agent, which answers.
    Agent,
}

/// Why two ends do not come together.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    #[error("the other end is not plumb: it sent {0:?}")]
    NotPlumb(String),
    #[error(
        "the other end uses version {0} of the agent protocol, this plumb uses version {VERSION}: \
         install the same version of plumb at both ends"
    )]
    OtherVersion(u16),
    /// The other end does not have the key, or somebody is in between.
    #[error("the other end has a different key: both ends need the same key file")]
    OtherKey,
}

/// What a role says first.
pub fn hello(role: Role) -> [u8; HELLO_BYTES] {
    let letter = match role {
        Role::Session => b'S',
        Role::Agent => b'A',
    };
    let [low, high] = VERSION.to_le_bytes();
    let [p, l, u, m, b] = *MAGIC;
    [p, l, u, m, b, letter, low, high]
}

/// What was said instead of a hello.
pub fn not_plumb(bytes: &[u8]) -> Refusal {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    Refusal::NotPlumb(String::from_utf8_lossy(shown).into_owned())
}

/// A connection after its handshake.
pub struct Secured {
    /// The name of its key, where its list gives one; empty at the session's end.
    pub key_name: String,
    /// What seals and opens all that follows.
    pub seal: Seal,
    /// Bytes that arrived after the handshake's.
    pub rest: Vec<u8>,
}

pub struct Initiator {
    held: Vec<u8>,
    has_hello: bool,
    noise: Option<HandshakeState>,
}

impl Initiator {
    /// Begins: appends what is to be sent first. Errors: the kernel gives no random bytes.
    pub fn new(key: &Key, out: &mut Vec<u8>) -> Result<Self, snow::Error> {
        let mut noise = builder(key, &prologue())?.build_initiator()?;
        out.extend_from_slice(&hello(Role::Session));
        write(&mut noise, out)?;
        Ok(Initiator { held: Vec::new(), has_hello: false, noise: Some(noise) })
    }

    /// Takes bytes that arrived; appends what is to be sent now. `None` while more must arrive.
    /// Errors: the other end does not speak this protocol.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<Secured>, Refusal> {
        self.held.extend_from_slice(bytes);
        if !self.has_hello {
            if !take_hello(&mut self.held, Role::Agent)? {
                return Ok(None);
            }
            self.has_hello = true;
        }
        let Some(message) = take_record(&mut self.held, MESSAGE_BYTES)? else { return Ok(None) };
        let mut noise = self.noise.take().ok_or(Refusal::OtherKey)?;
        read(&mut noise, &message)?;
        let state = noise.into_transport_mode().map_err(|_| Refusal::OtherKey)?;
        let mut seal = Seal::new(state);
        seal.seal(&[], out);
        Ok(Some(Secured { key_name: String::new(), seal, rest: std::mem::take(&mut self.held) }))
    }
}

pub struct Responder {
    held: Vec<u8>,
    stage: Stage,
    /// Those that are let in: a first message does not say by which it was made, so each is tried.
    keys: Rc<[Named]>,
}

enum Stage {
    Hello,
    First,
    Confirm(Box<Seal>, String),
    Over,
}

impl Responder {
    /// Begins, for whoever has one of these keys.
    pub fn new(keys: Rc<[Named]>) -> Self {
        Responder { held: Vec::new(), stage: Stage::Hello, keys }
    }

    /// Takes bytes that arrived; appends what is to be sent now, also where it refuses. `None`
    /// while more must arrive. Give it no more at once than it may hold. Errors: the other end does
    /// not speak this protocol.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<Secured>, Refusal> {
        self.held.extend_from_slice(bytes);
        loop {
            match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Hello => {
                    let came = take_hello(&mut self.held, Role::Session);
                    if matches!(came, Ok(true) | Err(Refusal::OtherVersion(_))) {
                        out.extend_from_slice(&hello(Role::Agent));
                    }
                    if !came? {
                        self.stage = Stage::Hello;
                        return Ok(None);
                    }
                    self.stage = Stage::First;
                }
                Stage::First => {
                    let Some(message) = take_record(&mut self.held, MESSAGE_BYTES)? else {
                        self.stage = Stage::First;
                        return Ok(None);
                    };
                    let (mut noise, name) = self.respond(&message)?;
                    write(&mut noise, out).map_err(|_| Refusal::OtherKey)?;
                    let state = noise.into_transport_mode().map_err(|_| Refusal::OtherKey)?;
                    self.stage = Stage::Confirm(Box::new(Seal::new(state)), name);
                }
                Stage::Confirm(mut seal, key_name) => {
                    let Some(sealed) = take_record(&mut self.held, EMPTY_BYTES)? else {
                        self.stage = Stage::Confirm(seal, key_name);
                        return Ok(None);
                    };
                    let mut nothing = Vec::new();
                    let record = [&(EMPTY_BYTES as u16).to_le_bytes()[..], &sealed].concat();
                    seal.open(&record, &mut nothing).map_err(|_| Refusal::OtherKey)?;
                    let rest = std::mem::take(&mut self.held);
                    return Ok(Some(Secured { key_name, seal: *seal, rest }));
                }
                Stage::Over => return Err(Refusal::OtherKey),
            }
        }
    }

    /// The handshake after a first message, and the name of the key that it was made with.
    fn respond(&self, message: &[u8]) -> Result<(Box<HandshakeState>, String), Refusal> {
        let made = self.keys.iter().find_map(|Named { key, name }| {
            let mut noise = builder(key, &prologue()).and_then(Builder::build_responder).ok()?;
            read(&mut noise, message).ok().map(|()| (Box::new(noise), name.clone()))
        });
        made.ok_or(Refusal::OtherKey)
    }

    /// Bytes that are held.
    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }
}

fn builder<'key>(key: &'key Key, prologue: &'key [u8]) -> Result<Builder<'key>, snow::Error> {
    Builder::new(PATTERN.parse()?).psk(0, key.bytes())?.prologue(prologue)
}

/// Both hellos: a handshake between other versions is another one.
fn prologue() -> Vec<u8> {
    [hello(Role::Session), hello(Role::Agent)].concat()
}

/// Appends the next handshake message as a record.
fn write(noise: &mut HandshakeState, out: &mut Vec<u8>) -> Result<(), snow::Error> {
    let mut message = [0; MESSAGE_BYTES];
    let length = noise.write_message(&[], &mut message)?;
    debug_assert_eq!(length, MESSAGE_BYTES);
    out.extend_from_slice(&(MESSAGE_BYTES as u16).to_le_bytes());
    out.extend_from_slice(&message);
    Ok(())
}

fn read(noise: &mut HandshakeState, message: &[u8]) -> Result<(), Refusal> {
    let mut payload = [0; MESSAGE_BYTES];
    match noise.read_message(message, &mut payload) {
        Ok(0) => Ok(()),
        Ok(_) | Err(_) => Err(Refusal::OtherKey),
    }
}

/// Takes the hello of a role off the front, once it is whole; what cannot become one is refused at
/// its first byte. Errors: [`Refusal::NotPlumb`] or [`Refusal::OtherVersion`].
pub fn take_hello(held: &mut Vec<u8>, from: Role) -> Result<bool, Refusal> {
    let expected = hello(from);
    // Magic and role.
    let known = held.len().min(6);
    if held[..known] != expected[..known] {
        return Err(not_plumb(held));
    }
    let Some(bytes) = held.first_chunk::<HELLO_BYTES>() else { return Ok(false) };
    match u16::from_le_bytes([bytes[6], bytes[7]]) {
        VERSION => {
            held.drain(..HELLO_BYTES);
            Ok(true)
        }
        other => Err(Refusal::OtherVersion(other)),
    }
}

/// Takes a record of a length that is known off the front, once it is whole. Any other length is
/// refused at once.
fn take_record(held: &mut Vec<u8>, length: usize) -> Result<Option<Vec<u8>>, Refusal> {
    let stated = held.first_chunk::<LENGTH_BYTES>();
    if stated.is_some_and(|stated| usize::from(u16::from_le_bytes(*stated)) != length) {
        return Err(Refusal::OtherKey);
    }
    if whole(held).is_none() {
        return Ok(None);
    }
    let mut record: Vec<u8> = held.drain(..LENGTH_BYTES + length).collect();
    record.drain(..LENGTH_BYTES);
    Ok(Some(record))
}
