//! What a fleet must withstand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::burst::Burst;

/// What a fleet must withstand beside the demand itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Share by which the demand may be higher than stated: 0.2 is 20 % more.
    pub headroom: f64,
    /// Servers that may be lost at a time while the rest carries the load.
    pub redundancy: u32,
    /// How requests arrive.
    pub burst: Burst,
    /// Share of the time in which the requests in flight must stay within what the servers carry.
    pub within: f64,
}

impl Policy {
    /// The demand as it is: no headroom, no burst, nothing spare.
    pub fn bare() -> Self {
        Self { headroom: 0.0, redundancy: 0, burst: Burst::None, within: 0.99 }
    }
}

impl Default for Policy {
    /// Poisson arrivals, within capacity for 99 % of the time.
    fn default() -> Self {
        Self { burst: Burst::Poisson, ..Self::bare() }
    }
}
