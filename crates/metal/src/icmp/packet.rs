//! Echoes as they lie in packets (RFC 792, RFC 4443): type, code, check sum, identifier, sequence
//! number, payload; numbers with the most significant byte first.

/// Bytes before the payload.
pub const HEAD_BYTES: usize = 8;
/// The payload begins with a tag of eight bytes and a count of eight.
pub const PAYLOAD_MIN_BYTES: usize = 16;
/// The longest head of an IPv4 packet.
pub(super) const IP_HEAD_MAX_BYTES: usize = 60;

const REQUEST_V4: u8 = 8;
const REPLY_V4: u8 = 0;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;

const CHECK_SUM: std::ops::Range<usize> = 2..4;
const IDENTIFIER: std::ops::Range<usize> = 4..6;
const SEQUENCE: std::ops::Range<usize> = 6..8;

/// A request with a unique payload: the tag, then bytes that do not repeat in the length of a word,
/// so that a packet put together wrongly is seen.
pub(super) fn request(is_v6: bool, identifier: u16, tag: u64, payload_bytes: usize) -> Vec<u8> {
    let mut packet = vec![0_u8; HEAD_BYTES + payload_bytes];
    packet[0] = if is_v6 { REQUEST_V6 } else { REQUEST_V4 };
    packet[IDENTIFIER].copy_from_slice(&identifier.to_be_bytes());
    let payload = &mut packet[HEAD_BYTES..];
    payload[..8].copy_from_slice(&tag.to_be_bytes());
    for (at, byte) in payload.iter_mut().enumerate().skip(PAYLOAD_MIN_BYTES) {
        *byte = (at % 251) as u8;
    }
    packet
}

/// Makes the request the one of this number. Of IPv4 the check sum is written, which the kernel
/// does not do for raw sockets; of IPv6 the kernel does, because addresses are in it.
#[inline]
pub(super) fn number(request: &mut [u8], sequence: u16, is_v6: bool) {
    request[SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
    // The payload differs from echo to echo too.
    let count = &mut request[HEAD_BYTES + 8..HEAD_BYTES + PAYLOAD_MIN_BYTES];
    count.copy_from_slice(&u64::from(sequence).to_be_bytes());
    request[CHECK_SUM].copy_from_slice(&[0, 0]);
    if !is_v6 {
        let sum = check_sum(request);
        request[CHECK_SUM].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Whether a packet is the answer to the request as it was numbered last.
#[inline]
pub(super) fn answers(
    packet: &[u8],
    request: &[u8],
    identifier: u16,
    sequence: u16,
    is_v6: bool,
) -> bool {
    let reply = if is_v6 { REPLY_V6 } else { REPLY_V4 };
    packet.len() == request.len()
        && packet[..2] == [reply, 0]
        && packet[IDENTIFIER] == identifier.to_be_bytes()
        && packet[SEQUENCE] == sequence.to_be_bytes()
        && packet[HEAD_BYTES..] == request[HEAD_BYTES..]
}

/// What follows the head of an IPv4 packet.
#[inline]
pub(super) fn without_ip_head(packet: &[u8]) -> Option<&[u8]> {
    let words = usize::from(packet.first()? & 0xf);
    packet.get(4 * words..)
}

/// The Internet check sum (RFC 1071) of what has zero in its place.
fn check_sum(packet: &[u8]) -> u16 {
    let pairs = packet.chunks(2);
    let sum: u64 = pairs
        .map(|pair| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])))
        .sum();
    let mut folded = sum;
    while folded > 0xffff {
        folded = (folded & 0xffff) + (folded >> 16);
    }
    !(folded as u16)
}

#[cfg(test)]
mod tests {
    use super::{HEAD_BYTES, answers, check_sum, number, request, without_ip_head};

    #[test]
    fn the_check_sum_is_the_one_of_the_standard() {
        // The example of RFC 1071: 0001 f203 f4f5 f6f7 sum to ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(check_sum(&bytes), !0xddf2);
        assert_eq!(check_sum(&[0xff]), !0xff00, "an odd byte is a high one");
        // With its sum in place a packet sums to nothing.
        let mut packet = request(false, 0x1234, 77, 57);
        number(&mut packet, 9, false);
        assert_eq!(check_sum(&packet), 0);
    }

    #[test]
    fn only_the_own_answer_answers() {
        for is_v6 in [false, true] {
            let mut sent = request(is_v6, 0xabcd, 0x0123_4567_89ab_cdef, 56);
            number(&mut sent, 515, is_v6);
            let mut reply = sent.clone();
            reply[0] = if is_v6 { 129 } else { 0 };
            let is_own = |packet: &[u8]| answers(packet, &sent, 0xabcd, 515, is_v6);
            assert!(is_own(&reply));
            assert!(!is_own(&sent), "the request itself is no answer");
            for at in [0, 1, 4, 5, 6, 7, HEAD_BYTES, HEAD_BYTES + 15, sent.len() - 1] {
                let mut other = reply.clone();
                other[at] ^= 1;
                assert!(!is_own(&other), "byte {at}");
            }
            assert!(!is_own(&reply[..reply.len() - 1]) && !is_own(&[]));
        }
    }

    #[test]
    fn the_head_of_a_packet_says_how_long_it_is() {
        let mut packet = vec![0x46_u8; 24];
        packet.extend([1, 2, 3]);
        assert_eq!(without_ip_head(&packet), Some(&[1, 2, 3][..]));
        assert_eq!(without_ip_head(&[0x4f; 20]), None);
        assert_eq!(without_ip_head(&[]), None);
    }
}
