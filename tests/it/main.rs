//! Promises of the whole, one file each.

mod simulator_agreement;
mod simulator_client;
mod simulator_faults;
mod simulator_http;
