//! Paths in messages and in journals: a text, or bytes that are none.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&PathBuf> for Written {
    fn from(path: &PathBuf) -> Self {
        match path.to_str() {
            Some(text) => Written::Text(text.to_owned()),
            None => Written::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl From<Written> for PathBuf {
    fn from(written: Written) -> Self {
        match written {
            Written::Text(text) => PathBuf::from(text),
            Written::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
        }
    }
}

/// Writes one. Errors: those of the format.
pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    Written::from(&path.to_owned()).serialize(to)
}

/// Reads one. Errors: those of the format.
pub fn deserialize<'text, D: Deserializer<'text>>(from: D) -> Result<PathBuf, D::Error> {
    Written::deserialize(from).map(Into::into)
}

pub mod maybe {
    use super::{Deserialize, Deserializer, PathBuf, Serialize, Serializer, Written};

    /// Writes it. Errors: those of the format.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        path.as_ref().map(Written::from).serialize(to)
    }

    /// Reads it. Errors: those of the format.
    pub fn deserialize<'text, D: Deserializer<'text>>(
        from: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Written>::deserialize(from)?.map(Into::into))
    }
}

pub mod all {
    use super::{Deserialize, Deserializer, PathBuf, Serializer, Written};

    /// Writes them. Errors: those of the format.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(Written::from))
    }

    /// Reads them. Errors: those of the format.
    pub fn deserialize<'text, D: Deserializer<'text>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        let all = Vec::<Written>::deserialize(from)?;
        Ok(all.into_iter().map(Into::into).collect())
    }
}
