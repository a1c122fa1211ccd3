//! The tests of the model from outside, as one program: a new file is one line here.

mod buffer;
mod characterization;
mod common;
mod crash;
mod ends;
mod floors;
mod hybrid;
mod map_accounts;
mod mapcache;
mod model;
mod nvm;
mod nvm_cuts;
mod orders;
mod parts;
mod pitfalls;
mod ports;
mod power_cuts;
mod rsftl;
mod rules;
mod seam;
mod sepbit;
mod session;
mod timing;
mod warnings;
mod windows;
mod worked_example;
