//! Recipes: a search as people write it, in TOML, with everything optional.
//!
//! A recipe is read ([`Loaded`]), changed by the command line's flags ([`Recipe::changed_by`]) and
//! resolved into a [`crate::plan::Plan`] with every default explicit ([`Recipe::into_plan`]).
//!
//! ```
//! use plimsoll::plan::LoadRange;
//! use plimsoll::recipe::{Purpose, Recipe};
//!
//! let recipe = Recipe::from_toml(
//!     r#"
//!     slo = ["ttft p95 < 500ms"]
//!     [target]
//!     url = "http://127.0.0.1:8000"
//!     [load]
//!     concurrency = "1..64"
//!     "#,
//!     "example.toml",
//! )
//! .unwrap();
//! let plan = recipe.into_plan(Some("example"), Purpose::Search).unwrap();
//! assert_eq!(plan.load, LoadRange { min: 1, max: 64 });
//! ```

mod check;
pub mod choice;
mod engine;
mod error;
mod lengths;
mod locate;
mod moving;
mod profile;
pub mod quantity;
mod ready;
mod resolve;
mod traffic;
mod users;
mod windows;
mod written;

pub use choice::{ApiName, ArrivalsName, EngineName, StrategyName, Tokenizer};
pub use engine::{EngineSection, Launch, ResetText};
pub use error::RecipeError;
pub use lengths::TokenLengths;
pub use moving::{Speeds, UsersRamp};
pub use profile::{ProfileKind, ProfileSection, Steps};
pub use quantity::{Bounds, Count, Duration, Precision, QuantityError, Rates, Speed};
pub use ready::{READY, ReadyRecipe};
pub use resolve::{Purpose, choose_preset};
pub use traffic::{ClassSection, FormatName, Pool, Ramp, ReplaySection, Window};
pub use users::{ThinkTime, TurnCount};
pub use written::{
    BudgetSection, LoadSection, Loaded, Recipe, StrategySection, TargetSection, TelemetrySection,
    TrialSection, TuneObjective, TuneSection, WorkloadSection,
};
