//! What the page's script inflates: gzip in base64, which no text of a run can break out of.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Text as gzip in base64.
pub fn pack(text: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = "writing to memory does not fail";
    encoder.write_all(text.as_bytes()).expect(written);
    STANDARD.encode(encoder.finish().expect(written))
}

/// What was packed, as the page's script finds it.
#[cfg(test)]
pub fn unpack(packed: &str) -> String {
    use std::io::Read;
    let bytes = STANDARD.decode(packed).expect("base64");
    let mut text = String::new();
    let mut decoder = flate2::read::GzDecoder::new(bytes.as_slice());
    decoder.read_to_string(&mut text).expect("gzip of a text");
    text
}

#[cfg(test)]
mod tests {
    use super::unpack;

    #[test]
    fn what_was_packed_comes_out_again() {
        let text = "</script><img src=x>".repeat(9);
        let packed = super::pack(&text);
        assert!(!packed.contains('<'));
        assert_eq!(unpack(&packed), text);
    }
}
