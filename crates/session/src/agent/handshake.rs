//! How a session and an agent come to know each other. No I/O: bytes go in and out.
//!
//! ```text
//! session                                        agent
//! hello: "PLUMB" "S" version (2 bytes)   ->
//! record: Noise message 1 (psk, e)       ->             over TCP only
//!                                        <-      hello: "PLUMB" "A" version
//!                                        <-      record: Noise message 2 (e, ee)
//! ```
//!
//! The pattern is `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s` (Noise protocol framework, revision 34,
//! §9): both ends prove that they have the key, and keys of the connection are fresh at both ends.
//! A recorded message 1 gets an answer, but only the owner of its ephemeral key can seal the first
//! message after that, so a replay is never admitted. Both hellos are the prologue. A hello never
//! changes its form: a different version is reported in plain text.

use super::key::{Key, Named};
use super::seal::{LENGTH_BYTES, Seal};
use snow::{Builder, HandshakeState};
use thiserror::Error;

/// Version of what is said after the hello. Counted up with every change.
pub const VERSION: u16 = 5;

pub const HELLO_BYTES: usize = 8;
const MAGIC: &[u8; 5] = b"PLUMB";

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Bytes of a handshake message: an ephemeral key and the tag of nothing.
const MESSAGE_BYTES: usize = 48;
const STATED: [u8; LENGTH_BYTES] = (MESSAGE_BYTES as u16).to_le_bytes();
/// Bytes shown of what is no hello.
const SHOWN_BYTES: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Session,
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

pub fn hello(role: Role) -> [u8; HELLO_BYTES] {
    let letter = match role {
        Role::Session => b'S',
        Role::Agent => b'A',
    };
    let [low, high] = VERSION.to_le_bytes();
    let [p, l, u, m, b] = *MAGIC;
    [p, l, u, m, b, letter, low, high]
}

/// What two ends know once they have greeted each other.
pub struct Greeted {
    /// The name of the other end's key, where the agent's list gives one.
    pub key_name: String,
    /// What seals and opens all that follows; `None` where others authenticate and encrypt.
    pub seal: Option<Seal>,
    /// Bytes that arrived after the greeting.
    pub rest: Vec<u8>,
}

pub struct Greeting {
    role: Role,
    way: Way,
    first: Vec<u8>,
    heard: Vec<u8>,
    has_hello: bool,
}

enum Way {
    /// Nothing: others authenticate and encrypt.
    Plain,
    Initiator(Box<HandshakeState>),
    /// The keys that an agent lets in: a first message does not say by which it was made, so each is
    /// tried.
    Responder(Vec<Named>),
    Over,
}

impl Greeting {
    /// Over what others authenticate and encrypt: both ends say hello at once.
    pub fn plain(role: Role) -> Greeting {
        Greeting::new(role, Way::Plain, hello(role).to_vec())
    }

    /// A session's, with an agent that has this key. Errors: the kernel gives no random bytes.
    pub fn initiator(key: &Key) -> Result<Greeting, snow::Error> {
        let mut noise = builder(key, &prologue())?.build_initiator()?;
        let mut first = hello(Role::Session).to_vec();
        write(&mut noise, &mut first)?;
        Ok(Greeting::new(Role::Session, Way::Initiator(Box::new(noise)), first))
    }

    pub fn responder(keys: Vec<Named>) -> Greeting {
        Greeting::new(Role::Agent, Way::Responder(keys), Vec::new())
    }

    fn new(role: Role, way: Way, first: Vec<u8>) -> Greeting {
        Greeting { role, way, first, heard: Vec::new(), has_hello: false }
    }

    /// What is to be sent before anything is heard.
    pub fn first(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.first)
    }

    /// What ended before it had said its hello.
    pub fn unknown(&self) -> Option<Refusal> {
        (!self.has_hello && !self.heard.is_empty()).then(|| not_plumb(&self.heard))
    }

    /// Takes bytes that arrived; appends what is to be sent now, also where it refuses. `None`
    /// while more must arrive. Errors: the other end does not speak this protocol; then and
    /// afterwards.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<Greeted>, Refusal> {
        self.heard.extend_from_slice(bytes);
        let way = std::mem::replace(&mut self.way, Way::Over);
        if !self.has_hello {
            let came = self.take_hello();
            if matches!(way, Way::Responder(_))
                && matches!(came, Ok(true) | Err(Refusal::OtherVersion(_)))
            {
                out.extend_from_slice(&hello(Role::Agent));
            }
            self.has_hello = came?;
        }
        if !self.has_hello {
            self.way = way;
            return Ok(None);
        }
        let (mut noise, key_name) = match way {
            Way::Plain => return Ok(Some(self.greeted(String::new(), None))),
            Way::Over => return Err(Refusal::OtherKey),
            way if !self.has_record()? => {
                self.way = way;
                return Ok(None);
            }
            Way::Initiator(mut noise) => {
                read(&mut noise, &self.take_record())?;
                (noise, String::new())
            }
            Way::Responder(keys) => respond(&keys, &self.take_record())?,
        };
        if !noise.is_handshake_finished() {
            write(&mut noise, out).map_err(|_| Refusal::OtherKey)?;
        }
        let state = noise.into_transport_mode().map_err(|_| Refusal::OtherKey)?;
        Ok(Some(self.greeted(key_name, Some(Seal::new(state)))))
    }

    fn greeted(&mut self, key_name: String, seal: Option<Seal>) -> Greeted {
        Greeted { key_name, seal, rest: std::mem::take(&mut self.heard) }
    }

    /// Takes the other end's hello off the front, once it is whole; what cannot become one is refused
    /// at its first byte. Errors: [`Refusal::NotPlumb`] or [`Refusal::OtherVersion`].
    fn take_hello(&mut self) -> Result<bool, Refusal> {
        let expected = hello(match self.role {
            Role::Session => Role::Agent,
            Role::Agent => Role::Session,
        });
        // Magic and role.
        let known = self.heard.len().min(6);
        if self.heard[..known] != expected[..known] {
            return Err(not_plumb(&self.heard));
        }
        let Some(bytes) = self.heard.first_chunk::<HELLO_BYTES>() else { return Ok(false) };
        match u16::from_le_bytes([bytes[6], bytes[7]]) {
            VERSION => {
                self.heard.drain(..HELLO_BYTES);
                Ok(true)
            }
            other => Err(Refusal::OtherVersion(other)),
        }
    }

    /// Whether a handshake message is whole. Errors: it has another length.
    fn has_record(&self) -> Result<bool, Refusal> {
        match self.heard.first_chunk() {
            Some(stated) if *stated != STATED => Err(Refusal::OtherKey),
            _ => Ok(self.heard.len() >= LENGTH_BYTES + MESSAGE_BYTES),
        }
    }

    fn take_record(&mut self) -> Vec<u8> {
        self.heard.drain(..LENGTH_BYTES + MESSAGE_BYTES).skip(LENGTH_BYTES).collect()
    }

    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        self.heard.len()
    }
}

fn not_plumb(bytes: &[u8]) -> Refusal {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    Refusal::NotPlumb(String::from_utf8_lossy(shown).into_owned())
}

/// The handshake after a first message, and the name of the key that it was made with.
fn respond(keys: &[Named], message: &[u8]) -> Result<(Box<HandshakeState>, String), Refusal> {
    let made = keys.iter().find_map(|Named { key, name }| {
        let mut noise = builder(key, &prologue()).and_then(Builder::build_responder).ok()?;
        read(&mut noise, message).ok().map(|()| (Box::new(noise), name.clone()))
    });
    made.ok_or(Refusal::OtherKey)
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
    noise.write_message(&[], &mut message)?;
    out.extend_from_slice(&STATED);
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
