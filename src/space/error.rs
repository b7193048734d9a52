//! What can be wrong with a space of knobs.

use thiserror::Error;

/// Knobs or constraints that no space can be made of.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// A knob's description is wrong.
    #[error("knob `{knob}`: {problem}")]
    Knob {
        /// Its name.
        knob: String,
        /// What is wrong, and the mend.
        problem: String,
    },
    /// A condition cannot be read or does not fit the knobs.
    #[error("{place} `{text}`: {problem}")]
    Expression {
        /// Where it stands.
        place: String,
        /// As written.
        text: String,
        /// What is wrong, and the mend.
        problem: String,
    },
    /// The default setting is forbidden.
    #[error(
        "the default setting ({setting}) breaks the constraint `{constraint}`; change a `default` or the constraint: the default is measured first"
    )]
    DefaultForbidden {
        /// The constraint.
        constraint: String,
        /// The default setting.
        setting: String,
    },
    /// Nothing to choose from.
    #[error(
        "no knob has more than one value, so there is nothing to tune; give a knob a `range` or `values`"
    )]
    NothingToTune,
}

impl SpaceError {
    pub(super) fn knob(knob: &str, problem: impl Into<String>) -> Self {
        Self::Knob { knob: knob.to_owned(), problem: problem.into() }
    }
}
