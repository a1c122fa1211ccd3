//! The tests of the model from outside, as one program: a new file is one line here.

// The policy of the guide stands in the tests as it would in `src/`: these are the names that it finds at the root.
use ftlab_core::{config, geometry, rng};

mod common;
mod guide;
mod map_accounts;
mod mapcache;
mod model;
mod pitfalls;
mod power_cuts;
mod rules;
mod seam;
mod timing;
mod worked_example;
