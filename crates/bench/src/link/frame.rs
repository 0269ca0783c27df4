//! One message is a four-byte little-endian length and that many bytes of JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

/// No message is longer; a longer length is a broken or hostile peer.
pub const FRAME_BYTES_MAX: u32 = 256 << 20;

/// Writes one message. Errors: what the writer reports, or a message over [`FRAME_BYTES_MAX`].
pub fn send(writer: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|length| *length <= FRAME_BYTES_MAX)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "message too long to send"))?;
    writer.write_all(&length.to_le_bytes())?;
    writer.write_all(&body)?;
    writer.flush()
}

/// Reads one message; `None` at a clean end of the stream. Errors: what the reader reports, a torn
/// frame, or one that is no message of this type.
pub fn receive<T: DeserializeOwned>(reader: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0_u8; 4];
    let mut have = 0;
    while have < length.len() {
        match reader.read(&mut length[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => have += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let length = u32::from_le_bytes(length);
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message too long"));
    }
    // Grows as bytes arrive: a false length costs nothing.
    let mut body = Vec::new();
    reader.take(u64::from(length)).read_to_end(&mut body)?;
    if body.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(serde_json::from_slice(&body)?))
}

#[cfg(test)]
mod tests {
    use super::{FRAME_BYTES_MAX, receive, send};

    #[test]
    fn messages_come_back_in_order_and_ends_are_told_apart() {
        let mut wire = Vec::new();
        send(&mut wire, &"one").expect("sends");
        send(&mut wire, &vec![2_u8]).expect("sends");
        let mut reader = wire.as_slice();
        assert_eq!(receive::<String>(&mut reader).expect("reads"), Some("one".to_owned()));
        assert_eq!(receive::<Vec<u8>>(&mut reader).expect("reads"), Some(vec![2]));
        assert_eq!(receive::<String>(&mut reader).expect("ends"), None);
        for cut in 1..wire.len() {
            let mut torn = &wire[..cut];
            let first = receive::<String>(&mut torn);
            assert_eq!(first.is_ok(), cut >= 9, "cut at {cut}");
        }
        let mut hostile = &(FRAME_BYTES_MAX + 1).to_le_bytes()[..];
        assert!(receive::<String>(&mut hostile).is_err());
    }
}
