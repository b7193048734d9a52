//! The simulated engine as something to launch, in virtual time: a whole tuning takes seconds.

use super::launcher::{LaunchError, LaunchFailure, Launched, Launcher};
use crate::loadgen::session::{Session, Wake};
use crate::plan::{Plan, TargetPlan};
use crate::search::tuner::FailureKind;
use crate::sim::knobs::{self, KnobError};
use crate::sim::model::Params;
use crate::sim::presets::{self, Preset};
use crate::sim::session::SimSession;
use crate::sim::traffic::Traffic;
use crate::slo::Metric;
use crate::space::{Setting, Space};
use crate::target::{Target, TargetError};

/// Virtual seconds that a launch takes, and one that fails.
const LAUNCH: (f64, f64) = (45.0, 20.0);

/// Launches the simulated engine in virtual time.
#[derive(Clone, Copy, Debug)]
pub struct Virtual {
    preset: &'static Preset,
}

/// A simulated engine with its knobs set.
#[derive(Clone, Debug)]
pub struct VirtualTarget {
    preset: &'static Preset,
    params: Params,
    traffic: Traffic,
    seed: u64,
    gaps: bool,
}

impl Virtual {
    /// A launcher of the plan's preset; the knobs must be among those of the simulated engine.
    ///
    /// # Errors
    /// When the plan's target is no simulated engine, or it has not such a knob.
    pub fn new(plan: &Plan, space: &Space) -> Result<Self, String> {
        let TargetPlan::Simulated(simulated) = &plan.target else {
            return Err("the target is no simulated engine".to_owned());
        };
        let preset = presets::find(&simulated.preset)
            .ok_or_else(|| format!("the simulated engine has no preset `{}`", simulated.preset))?;
        let mut point = space.default_point();
        // Every value of every knob is tried once, so that a recipe is refused before it has cost a launch.
        for axis in 0..point.len() {
            let default = point[axis];
            for value in space.knobs()[axis].domain.all().unwrap_or_else(|| vec![default]) {
                point[axis] = value;
                match knobs::apply(preset.params, &space.setting(&point)) {
                    Ok(_) | Err(KnobError::OutOfMemory { .. }) => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
            point[axis] = default;
        }
        Ok(Self { preset })
    }

    fn target(&self, plan: &Plan, setting: &Setting) -> Result<VirtualTarget, LaunchError> {
        let failed = |error: KnobError| LaunchFailure {
            kind: match error {
                KnobError::OutOfMemory { .. } => FailureKind::OutOfMemory,
                KnobError::Unknown { .. } | KnobError::Value { .. } => FailureKind::Start,
            },
            what: error.to_string(),
            log_tail: vec![error.to_string()],
            seconds: LAUNCH.1,
            log: None,
        };
        let params =
            knobs::apply(self.preset.params, setting).map_err(|error| LaunchError::Failed(failed(error)))?;
        let of_request = |metric: Metric| matches!(metric, Metric::Ttft | Metric::Tpot | Metric::E2e);
        Ok(VirtualTarget {
            preset: self.preset,
            params,
            traffic: Traffic::planned(&plan.workload),
            seed: plan.seed,
            gaps: !plan.slo.objectives.iter().all(|objective| of_request(objective.metric)),
        })
    }
}

impl Launcher for Virtual {
    type Target = VirtualTarget;

    async fn launch(
        &mut self,
        plan: &Plan,
        setting: &Setting,
    ) -> Result<Launched<VirtualTarget>, LaunchError> {
        Ok(Launched { target: self.target(plan, setting)?, seconds: LAUNCH.0, log: None })
    }

    async fn adjust(
        &mut self,
        engine: &mut Launched<VirtualTarget>,
        plan: &Plan,
        setting: &Setting,
    ) -> Result<(), LaunchError> {
        engine.target = self.target(plan, setting)?;
        Ok(())
    }

    async fn check(&mut self, _engine: &Launched<VirtualTarget>) -> Option<LaunchFailure> {
        None
    }

    async fn stop(&mut self, _engine: Launched<VirtualTarget>) {}

    fn command(&self, _plan: &Plan, setting: &Setting) -> String {
        let flag = |(name, value): (&String, &crate::space::KnobValue)| {
            format!("--{} {value}", name.replace('_', "-"))
        };
        let flags: Vec<String> = setting.iter().map(flag).collect();
        format!("plimsoll simulate --preset {} {}", self.preset.name, flags.join(" "))
    }
}

impl Target for VirtualTarget {
    type Session = SimSession;

    async fn open(&mut self, clock: f64, _first_request: u64) -> Result<SimSession, TargetError> {
        let new = if self.gaps { SimSession::with_gaps } else { SimSession::new };
        let mut session = new(self.params, self.traffic.clone(), self.seed);
        session.advance(Wake::at(clock)).await.map_err(|error| TargetError::Embedded(error.to_string()))?;
        Ok(session)
    }

    fn client(&self) -> Option<&crate::loadgen::ClientOptions> {
        None
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({
            "engine": "simulated, in virtual time",
            "preset": self.preset.name,
            "model": self.preset.model,
        })
    }
}
