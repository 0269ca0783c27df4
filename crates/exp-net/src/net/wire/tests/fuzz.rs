//! Fuzz targets: what a stranger can say to the port of a far end, and the other end by a line.
//! They run as the agent's do (`agent::tests::fuzz`), and for as long.

use crate::net::wire::PATIENCE;
use crate::net::wire::line::Asked;
use crate::net::wire::line::framed;
use crate::net::wire::line::tests::{after, codes};
use crate::net::wire::preamble::tests::{OTHER_TOKEN, TOKEN, gate};
use crate::net::wire::preamble::{Gate, PREAMBLE_BYTES, Purpose};
use session::fixtures::fuzz::{bytes, fuzz};
use std::collections::BTreeSet;

const PURPOSES: [Purpose; 4] = [Purpose::Line, Purpose::Data, Purpose::Datagram, Purpose::Answer];

#[test]
fn only_preambles_of_the_secret_are_let_in_and_each_once() {
    let (near, other) = (gate(TOKEN), gate(OTHER_TOKEN));
    let said = |gate: &Gate, numbers: &[u32]| -> Vec<u8> {
        let each = numbers.iter().zip(PURPOSES);
        let each = each.map(|(number, purpose)| gate.preamble(purpose, *number));
        each.flatten().collect()
    };
    let corpus = vec![
        said(&near, &[1, 2, 3, 4]),
        said(&near, &[7, 7, 1 << 24, u32::MAX]),
        said(&other, &[1, 2, 3, 4]),
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec(),
    ];
    fuzz(1000, corpus, bytes, |input, rng| {
        let mut far = gate(TOKEN);
        let mut used = BTreeSet::new();
        let mut way = Vec::new();
        for said in input.chunks_exact(PREAMBLE_BYTES).take(16) {
            let said = said.first_chunk().expect("as long as that");
            let purpose = PURPOSES[rng.usize(..PURPOSES.len())];
            if rng.bool() {
                far.expect(purpose, rng.u32(..9));
            }
            let admitted = far.admit(said, purpose);
            if let Ok(number) = admitted {
                assert_eq!(*said, near.preamble(purpose, number), "of the secret");
                assert!(used.insert(number), "let in twice");
            }
            way.push(admitted.map(|number| number.min(9)).map_err(|why| why as u8));
        }
        way
    });
}

#[test]
fn what_is_said_by_a_line_is_a_message_or_told_as_none() {
    let framed = |body: &[u8]| framed(&codes(), true, 0, body);
    let asked = br#"{"Said":{"case":"far=loopback,number=1","ask":{"window_ns":1}}}"#;
    let corpus = vec![
        [framed(asked), framed(asked)].concat(),
        framed(br#"{"Refused":"no \u001b[2J room"}"#),
        framed(br#"{"Said":{"case":[{}],"\u001b[2J":1e999}}"#),
        framed(br#"{"\u202e":[[[[[[[["x"]]]]]]]]}"#),
        (64_u32 << 10).to_le_bytes().to_vec(),
        framed(&[b'['; 4000]),
    ];
    fuzz(1000, corpus, bytes, |input, _| {
        let (mut line, other) = after(input);
        drop(other);
        let mut messages = 0;
        loop {
            match line.hear::<Asked>(PATIENCE) {
                Ok(Asked { case, ask }) => {
                    let text = format!("{case}{ask}");
                    assert!(!text.contains(char::is_control), "{text:?}");
                    messages += 1;
                }
                Err(told) => {
                    let told = format!("{told:#}");
                    assert!(!told.contains(char::is_control), "{told:?}");
                    // Its end, or what is none: nothing is waited for.
                    assert!(!told.contains("in time"), "{told}");
                    let kind: String = told.chars().take(40).collect();
                    let is_over = told.contains("is gone") || told.contains("announces");
                    if is_over || messages > 100 {
                        return (messages, kind);
                    }
                    messages += 1;
                }
            }
        }
    });
}
