//! Requests that resemble a trace.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::RequestSource;

use crate::common::CommonKeys;
use crate::fitted::{FittedGenerator, FittedLayout};
use crate::fitted_model::FittedModel;
use crate::key_set::keys;
use crate::kind::{Kind, Maker, PLACED, Plan};
use crate::refusal::refuse;

keys! {
    /// Keys of kind `fitted` alone.
    pub struct Keys {
        /// Kind `fitted`: what `ftlab trace fit` found in a trace.
        pub fitted: Option<Box<FittedModel>>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str =
        "Requests that resemble a trace, drawn from what `ftlab trace fit` found in it (`fitted`).";
    const COMMON: &'static [&'static [&'static str]] = &[PLACED];
    const EXAMPLE: &'static str = "";
    const CHANGES: &'static [&'static str] = &[];

    fn validate(&self, common: &CommonKeys) -> Result<(), ConfigError> {
        let Some(model) = &self.fitted else {
            let expected = "kind \"fitted\" needs the model that `ftlab trace fit` writes";
            return refuse("fitted", "nothing", expected);
        };
        model.validate()?;
        match common.requests.filter(|requests| *requests > model.requests()) {
            Some(requests) => {
                let expected =
                    format!("the model has {} requests; fewer are the first of them", model.requests());
                refuse("requests", requests, expected)
            }
            None => Ok(()),
        }
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let Some(model) = &self.fitted else { return refuse("fitted", "nothing", "state a model") };
        let offset = common.offset_bytes.unwrap_or(0);
        let room = capacity_bytes.saturating_sub(offset);
        let layout = FittedLayout::new(model, offset, room, common.footprint_bytes)?;
        Ok(Plan::of(FittedMaker { requests: model.requests(), layout }))
    }
}

/// Gives the same requests again in every pass, as the trace would to which it was fitted.
struct FittedMaker {
    layout: FittedLayout,
    requests: u64,
}

impl Maker for FittedMaker {
    fn open(&self, seed: u64, _pass: u64, requests: u64) -> Box<dyn RequestSource> {
        Box::new(FittedGenerator::new(&self.layout, seed, requests))
    }

    fn default_requests(&self) -> u64 {
        self.requests
    }

    fn may_age_longer(&self) -> bool {
        false
    }
}
