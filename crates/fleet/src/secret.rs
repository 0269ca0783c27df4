//! The secret that the nodes of a sweep share: a key file, or an environment variable that an engine
//! fills from its own store of secrets.

use anyhow::{Context, Result, bail};
use session::agent::key::Key;
use std::path::Path;

/// The environment variable with the key's 64 hexadecimal digits.
pub const VARIABLE: &str = "PLUMB_FLEET_KEY";

/// The key of a file, else that of [`VARIABLE`]. Errors: neither is there, or it is no key.
pub fn secret(file: Option<&Path>) -> Result<Key> {
    if let Some(file) = file {
        return Key::read(file);
    }
    match std::env::var(VARIABLE) {
        Ok(text) => Key::parse(text.trim()).with_context(|| {
            format!("{VARIABLE} does not contain a key: 64 hexadecimal digits and nothing else")
        }),
        Err(_) => bail!(
            "a sweep needs a secret that all its nodes share: type --key-file FILE, or set \
             {VARIABLE} (`plumb agent --new-key FILE` makes one)"
        ),
    }
}
