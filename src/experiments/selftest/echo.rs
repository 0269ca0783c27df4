//! ## Question
//! Does a two-ended experiment reach its far end, and do both ends' counts reach the record?
//!
//! ## Method
//! The far end listens on loopback and publishes its address with a one-time token. The near end
//! connects, says the token, and sends messages that come back; each round trip is an event. After
//! the drain the far end reports how many messages it saw.
//!
//! ## Prediction
//! A loopback round trip on one machine: 2 µs to 1 ms. The count is exact.
//!
//! ## Parameters
//! `messages`: how many are sent in a round. `far`: whether the far end serves, or fails after it.
//!
//! ## Reading the result
//! `received` must equal `messages`, or the round is void. So it is when the far end fails.
//!
//! ## Pitfalls
//! The figures depend on where the scheduler puts both ends; they are no measurement of a network.
//!
//! ## Sources
//! DESIGN §4.2.

use crate::experiment::{
    Card, Domain, Experiment, Known, Offer, Param, Params, Role, Site, Skip, ViewCard, predicted,
};
use crate::measure::{Bench, FarEnd};
use anyhow::{Context, Result, ensure};
use record::case::{Case, Order, Series};
use record::event::{Isolation, Prediction, Repeat};
use record::key::{CaseId, Value};
use record::metric::{Better, Kind, Metric};
use record::unit::Unit;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The experiment.
pub struct Echo;
/// For the family's list.
pub const EXPERIMENT: Echo = Echo;

static CARD: Card = Card {
    id: "selftest.echo",
    title: "Two ends: messages that come back",
    metrics: &[
        Metric::new(
            "round_trip",
            "send to return of one message",
            Unit::Ns,
            Better::Lower,
            Kind::Os,
        ),
        Metric::new(
            "received",
            "messages that the far end saw",
            Unit::Count,
            Better::None,
            Kind::Os,
        ),
    ],
    params: &[
        Param {
            name: "messages",
            doc: "messages sent in a round",
            domain: Domain::Integer {
                low: 1,
                high: 10_000,
                unit: Unit::Count,
            },
            defaults: ["50", "50", "50"],
            role: Role::Case,
        },
        Param {
            name: "far",
            doc: "whether the far end serves, or fails after it",
            domain: Domain::Symbols(&["serves", "fails"]),
            defaults: ["serves", "serves", "serves"],
            role: Role::Setting,
        },
    ],
    after: &[],
    repeat: Repeat::Rounds,
    isolation: Isolation::Shared,
    needs: &[],
    view: ViewCard::Table,
};

/// No end waits longer for the other.
const PATIENCE: Duration = Duration::from_secs(10);

impl Experiment for Echo {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        include_str!("echo.rs")
    }

    fn two_ended(&self) -> bool {
        true
    }

    fn series(&self, _site: &Site, params: &Params) -> Result<Offer, Skip> {
        let case = |messages| Case::new(CaseId::new().with("messages", messages));
        Ok(Offer {
            series: vec![Series {
                experiment: CARD.id.to_owned(),
                name: String::new(),
                order: Order::Shuffled,
                cases: params.ints("messages").into_iter().map(case).collect(),
                settings: params
                    .texts("far")
                    .into_iter()
                    .map(|far| ("far".to_owned(), far.into()))
                    .collect(),
            }],
            ..Offer::default()
        })
    }

    fn round_cost(&self, _site: &Site, series: &Series) -> Duration {
        Duration::from_millis(100) * u32::try_from(series.cases.len()).unwrap_or(1)
    }

    fn predict(
        &self,
        _site: &Site,
        known: Option<&Known>,
        case: &Case,
        metric: &Metric,
    ) -> Option<Prediction> {
        if known.is_some() {
            return None;
        }
        let messages = case.int("messages").unwrap_or(0) as f64;
        Some(match metric.name.as_ref() {
            "received" => predicted(messages, messages, messages, "every message sent arrives"),
            _ => predicted(
                2e3,
                3e4,
                1e6,
                "two system calls and a switch at each end, wherever the ends run",
            ),
        })
    }

    fn measure(&self, series: &Series, bench: &mut Bench) -> Result<()> {
        let far = bench.far().context("no far end was given")?.clone();
        for case in &series.cases {
            let addr = far.addrs.first().context("the far end gave no address")?;
            let mut stream = TcpStream::connect(addr).context("cannot reach the far end")?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(far.token.as_bytes())?;
            let mut trips = Vec::new();
            for message in 0..case.int("messages").unwrap_or(0) {
                let start = Instant::now();
                stream.write_all(&message.to_le_bytes())?;
                let mut back = [0_u8; 8];
                stream.read_exact(&mut back)?;
                trips.push(start.elapsed().as_nanos() as f64);
                ensure!(
                    u64::from_le_bytes(back) == message,
                    "another message came back"
                );
            }
            bench.record(case, "round_trip", trips)?;
        }
        Ok(())
    }

    fn serve(&self, series: &Series, far: &mut FarEnd) -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on loopback")?;
        let token = far.publish(vec![listener.local_addr()?.to_string()])?;
        for case in far.order().series.cases.clone() {
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut said = vec![0_u8; token.len()];
            stream.read_exact(&mut said)?;
            ensure!(
                said == token.as_bytes(),
                "a connection without the token was refused"
            );
            let mut received = 0_u64;
            let mut message = [0_u8; 8];
            while stream.read_exact(&mut message).is_ok() {
                received += 1;
                stream.write_all(&message)?;
            }
            far.record(&case, "received", vec![received as f64])?;
            ensure!(
                Some(received) == case.int("messages"),
                "{received} messages arrived of {:?}",
                case.int("messages")
            );
        }
        far.drained()?;
        let fails = series.settings.get("far").and_then(Value::text) == Some("fails");
        ensure!(!fails, "the far end was asked to fail");
        debug_assert_eq!(series.experiment, CARD.id);
        Ok(())
    }
}
