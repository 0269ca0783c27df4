//! ## Question
//! Does a two-ended experiment reach its far end, and do both ends' counts reach the record?
//!
//! ## Method
//! The far end listens and publishes its address with a secret. The near end names the case,
//! connects with a one-time token, and sends messages that come back; each round trip is an event.
//! After the last one the far end reports how many messages it received.
//!
//! ## Prediction
//! A loopback round trip on one machine: 2 µs to 1 ms; between hosts up to a second. The count is
//! exact.
//!
//! ## Parameters
//! `far`: the far end. `messages`: how many are sent in a round. `end`: whether the far end serves,
//! or fails after it.
//!
//! ## Reading the result
//! `received` must equal `messages`, or the round is void. A failing far end voids it as well.
//!
//! ## Pitfalls
//! The figures depend on where the scheduler puts both ends; they are no measurement of a network.
//!
//! ## Sources
//! DESIGN §4.2.

use crate::net::wire::timed::echo;
use crate::net::wire::{Acceptor, Dialer, PATIENCE};
use bench::experiment::FAR_PARAM;
use bench::measure::FarEnd;
use bench::prelude::*;
use metal::socket::Wait;
use std::io::{Read, Write};
use std::time::Instant;

bench::experiment!(Echo);

symbols! {
    /// How the far end's round ends.
    enum End { Serves = "serves", Fails = "fails" }
}
case! {
    /// Messages that come back.
    pub struct Messages {
        /// messages sent in a round
        messages: u64 = Domain::count(1, 10_000),
    }
}

const MESSAGE_BYTES: usize = 8;

static CARD: Card = Card {
    id: "selftest.echo",
    title: "Two ends: messages that come back",
    metrics: metrics! {
        "round_trip" => Ns Lower Os: "send to return of one message";
        "received" => Count None Os: "messages that the far end saw";
    },
    params: params![
        &[FAR_PARAM],
        Messages::PARAMS,
        settings! {
            "end": End::DOMAIN, ["serves"; 3] => "whether the far end serves, or fails after it";
        },
    ],
    ..Card::PLAIN
};

impl Experiment for Echo {
    type Case = Messages;
    const CARD: &'static Card = &CARD;
    const MANUAL: &'static str = bench::manual!("echo.rs");
    const ROUND_COST: fn(&Site, &Series) -> Duration =
        |_, series| Duration::from_millis(100) * u32::try_from(series.cases.len()).unwrap_or(1);
    const SERVE: Option<fn(&Series, &mut FarEnd) -> Result<()>> = Some(serve);

    fn cases(_: &Site, _: Preset) -> Vec<Messages> {
        vec![Messages { messages: 50 }]
    }

    fn law(facts: Facts, case: &Messages, _: &Case, metric: &Metric) -> Option<Prediction> {
        if facts.known.is_some() {
            return None;
        }
        let messages = case.messages as f64;
        Some(match (&*metric.name, &facts.site.peer) {
            ("received", _) => predicted(messages, messages, messages, "every message arrives"),
            (_, Some(_)) => predicted(5e3, 2e5, 1e9, "from the same rack to another continent"),
            (_, None) => predicted(2e3, 3e4, 1e6, "two system calls and a switch at each end"),
        })
    }

    fn measure(series: &Series, bench: &mut Bench) -> Result<()> {
        let mut dialer = Dialer::new(bench)?;
        for case in &series.cases {
            let Messages { messages } = Messages::decode(case)?;
            let mut line = dialer.call(case, &())?;
            let mut stream = dialer.connect()?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut trips = Vec::new();
            for message in 0..messages {
                let start = Instant::now();
                stream.write_all(&message.to_le_bytes())?;
                let mut back = [0_u8; MESSAGE_BYTES];
                stream.read_exact(&mut back)?;
                trips.push(start.elapsed().as_nanos() as f64);
                ensure!(u64::from_le_bytes(back) == message, "another message came back");
            }
            drop(stream);
            let received: u64 = line.hear(PATIENCE)?;
            bench.record(case, "round_trip", trips)?;
            bench.record(case, "received", vec![received as f64])?;
            ensure!(received == messages, "{received} messages arrived of {messages}");
        }
        Ok(())
    }
}

fn serve(series: &Series, far: &mut FarEnd) -> Result<()> {
    Acceptor::open(far)?.serve(far, |acceptor, _, call| {
        let (stream, _) = acceptor.admit(Instant::now() + PATIENCE)?;
        let line = &call.line;
        let goes_on = || Ok(line.is_quiet());
        let echoed = echo(&stream.into(), MESSAGE_BYTES, Wait::Block, PATIENCE, goes_on)?;
        call.line.tell(&echoed.messages)
    })?;
    let fails = series.settings.get("end").and_then(Value::text) == Some(End::Fails.text());
    ensure!(!fails, "the far end was asked to fail");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::EXPERIMENT;
    use crate::net::wire::tests::rehearse_both;
    use bench::experiment::Preset;

    #[test]
    fn every_message_comes_back_and_is_counted() {
        let rehearsed = rehearse_both(&EXPERIMENT, Preset::Rehearsal, &[("messages", "1,20")]);
        assert!(rehearsed.failed.is_empty(), "{:?}", rehearsed.failed);
        for samples in &rehearsed.samples {
            let count = samples.case.get("messages").and_then(|value| value.int());
            let values = samples.raw.samples();
            match samples.metric.as_str() {
                "received" => assert_eq!(Some(values[0] as u64), count),
                _ => assert_eq!(Some(values.len() as u64), count),
            }
        }
        assert_eq!(rehearsed.samples.len(), 4);
    }
}
