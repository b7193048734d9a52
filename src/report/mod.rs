//! What a run has to say, for people and for programs.
