//! A target whose engine may have been launched for the run.

use super::running::Running;
use crate::loadgen::ClientOptions;
use crate::target::{Target, TargetError};

/// A target, and the engine that was launched for it, if one was: each load is opened on an engine
/// that runs and was reset.
pub struct Attended<'a, T> {
    target: &'a mut T,
    engine: Option<&'a Running>,
}

impl<'a, T> Attended<'a, T> {
    /// `target` is reached at the engine's URL.
    pub fn new(target: &'a mut T, engine: Option<&'a Running>) -> Self {
        Self { target, engine }
    }
}

impl<T: Target> Target for Attended<'_, T> {
    type Session = T::Session;

    async fn open(&mut self, clock: f64, first_request: u64) -> Result<T::Session, TargetError> {
        if let Some(engine) = self.engine {
            // A load is opened again after the server was lost: then this says why it was.
            engine.check().await.map_err(Box::new)?;
            engine.reset().await?;
        }
        self.target.open(clock, first_request).await
    }

    fn client(&self) -> Option<&ClientOptions> {
        self.target.client()
    }

    fn describe(&self) -> serde_json::Value {
        let description = self.target.describe();
        match self.engine {
            Some(engine) => engine.described(description),
            None => description,
        }
    }
}
