//! The words of the contract, which nearly every file of an experiment uses.

pub use crate::experiment::contract::{Experiment, Facts};
pub use crate::experiment::{
    Card, Claim, DerivedValue, Domain, Field, Fields, Hazards, Known, Need, Offer, Param, Params,
    Preset, Site, Skip, ViewCard, bounded, predicted, unknown,
};
pub use crate::link::RoundOrder;
pub use crate::measure::{Bench, Clock, CoreClock, Declared, Values, WrongResult};
pub use crate::{case, metrics, params, rows, settings, symbols};
pub use anyhow::{Context, Result, anyhow, bail, ensure};
pub use record::case::{Case, Order, Series};
pub use record::event::Prediction;
pub use record::key::{CaseId, Key, Put, Value};
pub use record::key_figure::KeyFigure;
pub use record::metric::{Better, Kind, Metric, Over};
pub use record::quantity::render;
pub use record::unit::Unit;
pub use std::collections::BTreeMap;
pub use std::time::Duration;
