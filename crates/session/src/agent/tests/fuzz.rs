//! Fuzz targets: the frame decoder, both sides of the handshake, sealed records, and messages.

use super::{calibration, open, order};
use crate::agent::check::check;
use crate::agent::handshake::{Greeted, Greeting, Refusal, Role, VERSION, hello};
use crate::agent::key::Key;
use crate::agent::message::{FromAgent, Open, ToAgent, printable};
use crate::agent::seal::Seal;
use crate::fixtures::fuzz::{bytes, fuzz};
use bench::link::frame::{Decoder, encode};
use bench::link::{Endpoint, FromWorker, ToWorker};
use blake2::{Blake2s256, Digest};
use record::plain::steers;

fn pieces<'input>(input: &'input [u8], rng: &mut fastrand::Rng) -> Vec<&'input [u8]> {
    let mut rest = input;
    let mut pieces = Vec::new();
    let most = [1, 7, 60, 1024][rng.usize(0..4)];
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(rng.usize(1..=most).min(rest.len()));
        pieces.push(piece);
        rest = left;
    }
    pieces
}

#[test]
fn the_frame_decoder_holds_no_more_than_its_limit_and_loses_nothing() {
    const LIMIT: usize = 1000;
    let frame = |body: &[u8]| encode(body, LIMIT).unwrap();
    let corpus = vec![
        [frame(b"one"), frame(b""), frame(&[7; 900])].concat(),
        frame(&[0; LIMIT]),
        vec![0xe9, 0x03, 0, 0],
    ];
    fuzz(4000, corpus, bytes, |input, rng| {
        let mut decoder = Decoder::new(LIMIT);
        let mut again = Vec::new();
        let mut is_over = false;
        'pieces: for piece in pieces(input, rng) {
            decoder.push(piece);
            assert!(decoder.held_bytes() <= LIMIT + 4 + piece.len());
            loop {
                match decoder.whole() {
                    Ok(Some(frame)) => again.extend(encode(&frame, LIMIT).unwrap()),
                    Ok(None) => break,
                    Err(refused) => {
                        assert!(refused.length > LIMIT);
                        is_over = true;
                        break 'pieces;
                    }
                }
            }
        }
        // What came out and what is held is what went in.
        assert!(input.starts_with(&again));
        if !is_over {
            assert_eq!(again.len() + decoder.held_bytes(), input.len());
        }
        (is_over, again.len(), decoder.held_bytes().min(64))
    });
}

/// The seals of a session and of an agent with a key, and what each said until then.
fn shaken(key: &Key) -> ((Seal, Vec<u8>), (Seal, Vec<u8>)) {
    let mut session = Greeting::initiator(key).unwrap();
    let mut agent = Greeting::responder(super::one(key));
    let (first, mut answer, mut none) = (session.first(), Vec::new(), Vec::new());
    let there = agent.feed(&first, &mut answer).unwrap().unwrap();
    let here = session.feed(&answer, &mut none).unwrap().unwrap();
    assert!(none.is_empty());
    ((here.seal.unwrap(), first), (there.seal.unwrap(), answer))
}

/// Why a handshake ended, by its kind.
fn kind(fed: &Result<Option<Greeted>, Refusal>) -> u8 {
    match fed {
        Ok(None) => 0,
        Ok(Some(_)) => 1,
        Err(Refusal::NotPlumb(_)) => 2,
        Err(Refusal::OtherVersion(_)) => 3,
        Err(Refusal::OtherKey) => 4,
    }
}

/// What was heard of another connection is answered: nothing that follows is opened.
#[test]
fn no_bytes_of_others_come_through_the_handshake_at_an_agent() {
    let key = Key::random().unwrap();
    // All that somebody heard who listened, of this key and of another one, up to an opening.
    let heard = |key: &Key| {
        let ((mut seal, said), _) = shaken(key);
        let body = serde_json::to_vec(&open("near")).unwrap();
        [said, seal.sealed(&encode(&body, 1 << 16).unwrap())].concat()
    };
    let corpus =
        vec![heard(&key), heard(&key), heard(&Key::random().unwrap()), hello(Role::Agent).to_vec()];
    fuzz(300, corpus, bytes, |input, rng| {
        let mut greeting = Greeting::responder(super::one(&key));
        let (mut out, mut text) = (Vec::new(), Vec::new());
        let mut fed = Ok(None);
        let mut seal: Option<Seal> = None;
        for piece in pieces(input, rng) {
            if let Some(seal) = &mut seal {
                let _ = seal.open(piece, &mut text);
                continue;
            }
            fed = greeting.feed(piece, &mut out);
            if let Ok(Some(greeted)) = &mut fed {
                let mut opener = greeted.seal.take().unwrap();
                let _ = opener.open(&greeted.rest, &mut text);
                seal = Some(opener);
                continue;
            }
            // A record of 48 bytes waits; and no more is said than a hello and one of them.
            assert!(greeting.held_bytes() <= 50 + piece.len());
            if fed.is_err() {
                // It stays over.
                assert!(greeting.feed(b"PLUMB", &mut out).is_err());
                break;
            }
        }
        assert!(text.is_empty(), "it was let in");
        assert!(out.len() <= 58);
        (kind(&fed), out.len(), greeting.held_bytes())
    });
}

#[test]
fn no_bytes_of_others_come_through_the_handshake_at_a_session() {
    let key = Key::random().unwrap();
    let heard = |key: &Key| shaken(key).1.1;
    let corpus = vec![
        heard(&key),
        heard(&key),
        heard(&Key::random().unwrap()),
        b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(),
    ];
    fuzz(300, corpus, bytes, |input, rng| {
        let mut greeting = Greeting::initiator(&key).unwrap();
        let (mut out, mut fed) = (Vec::new(), Ok(None));
        for piece in pieces(input, rng) {
            fed = greeting.feed(piece, &mut out);
            assert!(!matches!(fed, Ok(Some(_))), "it let somebody in");
            if fed.is_err() {
                break;
            }
        }
        assert!(out.is_empty(), "it says no more before it knows who answers");
        (kind(&fed), input.len().min(100))
    });
}

#[test]
fn sealed_records_are_opened_as_they_were_sealed_or_not_at_all() {
    let key = Key::random().unwrap();
    let texts: [&[u8]; 4] = [b"first", b"", &[5; 300], b"last"];
    let whole = texts.concat();
    let corpus = vec![vec![0; 3 * 18 + whole.len()]];
    fuzz(100, corpus, bytes, |input, rng| {
        let ((mut sealer, _), (mut opener, _)) = shaken(&key);
        let sealed: Vec<u8> = texts.iter().flat_map(|text| sealer.sealed(text)).collect();
        // The input says which bits of it are turned on the way, and how long it is.
        let mut arrived = sealed.clone();
        arrived.resize(input.len(), 0);
        for (byte, turned) in arrived.iter_mut().zip(input) {
            *byte ^= turned;
        }
        let mut text = Vec::new();
        let mut is_open = true;
        for piece in pieces(&arrived, rng) {
            is_open = opener.open(piece, &mut text).is_ok();
            if !is_open {
                break;
            }
        }
        assert!(whole.starts_with(&text), "something else was opened");
        if arrived == sealed {
            assert!(is_open && text == whole && !opener.is_partial());
        }
        (is_open, text.len(), arrived.len() > sealed.len())
    });
}

fn opening() -> ToAgent {
    let ToAgent::Open(open) = open("near") else { panic!("an opening") };
    ToAgent::Open(Box::new(Open { session: 7, ..*open }))
}

fn messages() -> Vec<Vec<u8>> {
    let json = |message: &ToAgent| serde_json::to_vec(message).unwrap();
    let answer = |message: &FromAgent| serde_json::to_vec(message).unwrap();
    let worker = |event: FromWorker| answer(&FromAgent::Event { round: 1, event: Box::new(event) });
    vec![
        json(&opening()),
        json(&ToAgent::Order { round: 1, order: Box::new(ToWorker::Serve(order(5))) }),
        json(&ToAgent::Order { round: 1, order: Box::new(ToWorker::Drain) }),
        json(&ToAgent::Alive { within_s: 20.0 }),
        json(&ToAgent::Stop { round: u64::MAX }),
        json(&ToAgent::Clock),
        answer(&FromAgent::Refused { reason: "no".to_owned() }),
        answer(&FromAgent::Ended { round: 1, reason: "died".to_owned() }),
        worker(FromWorker::Calibrated(calibration(0))),
        worker(FromWorker::Listening(Endpoint {
            addrs: vec!["127.0.0.1:1".to_owned()],
            token: "0".repeat(32),
        })),
        worker(FromWorker::Failed(vec!["a".to_owned(), "b".to_owned()])),
        worker(FromWorker::Done(Default::default())),
    ]
}

/// Whoever changes a message counts up [`VERSION`], and writes down here what they look like from
/// then on.
#[test]
fn a_version_is_one_form_of_the_messages() {
    let form: Vec<String> = messages()
        .into_iter()
        .map(|message| String::from_utf8(message).unwrap().replace(env!("CARGO_PKG_VERSION"), "?"))
        .collect();
    let digest = Blake2s256::digest(form.join("\n"));
    let digest = u64::from_le_bytes(*digest.first_chunk().unwrap());
    assert_eq!((VERSION, digest), (5, 13_618_997_453_912_628_761), "{}", form.join("\n"));
}

#[test]
fn messages_are_understood_or_refused_and_orders_checked() {
    fuzz(3000, messages(), bytes, |input, _| {
        let to = serde_json::from_slice::<ToAgent>(input);
        let from = serde_json::from_slice::<FromAgent>(input);
        if let Ok(message) = &to {
            let again = serde_json::to_vec(message).unwrap();
            serde_json::from_slice::<ToAgent>(&again).unwrap();
        }
        if let Ok(message) = &from {
            let again = serde_json::to_vec(message).unwrap();
            serde_json::from_slice::<FromAgent>(&again).unwrap();
        }
        let checked = match &to {
            Ok(ToAgent::Order { order, .. }) if let ToWorker::Serve(order) = &**order => {
                let experiment = catalogue::find(&order.series.experiment);
                Some(check(order, experiment).is_ok())
            }
            _ => None,
        };
        if let Ok(ToAgent::Open(open)) = &to {
            let Open { host_name, .. } = &**open;
            assert!(!printable(host_name).chars().any(steers));
        }
        let why = |error: &serde_json::Error| (error.classify() as u8, error.column() / 8);
        (to.as_ref().err().map(why), from.as_ref().err().map(why), checked)
    });
}
