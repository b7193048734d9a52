//! The mathematics: no clocks, no files, nothing random that is not seeded.
//!
//! One way to do a thing: [`quantile::quantile`] is the only percentile of the crate,
//! [`isotonic::Isotonic`] its only monotone regression. What a maintained crate does right is taken
//! from there (`statrs` for the error and gamma functions); what it does not is here, checked against
//! golden vectors of SciPy 1.17.

pub mod batch;
pub mod betabinomial;
pub mod binomial;
pub mod growth;
pub mod isotonic;
pub mod least_squares;
pub mod monotone;
pub mod mser;
pub mod optim;
pub mod quantile;
pub mod sequential;
pub mod special;
