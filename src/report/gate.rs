//! What a gate says, for people and for the systems that run it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::sequential::{GateDecision, GateTest, Known};
use crate::units::{Seconds, significant};

/// The result of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateDocument {
    /// Version of this schema.
    pub schema_version: u32,
    /// What the test says.
    pub decision: GateDecision,
    /// What was tested.
    pub test: GateTest,
    /// The present capacity, where it could be measured.
    pub now: Option<Known>,
    /// Present capacity relative to the baseline, and its 95 % interval.
    pub change: Option<(f64, f64, f64)>,
    /// The SLO.
    pub slo: Vec<String>,
    /// The baseline's folder.
    pub baseline: String,
    /// The folder of this run.
    pub run: String,
    /// Measuring trials.
    pub trials: usize,
    /// Seconds that they took.
    pub seconds: f64,
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl GateDocument {
    /// The result in one line.
    pub fn line(&self) -> String {
        let percent = |share: f64| significant(share * 100.0);
        let sure = match self.change {
            Some((change, low, high)) => format!(
                "capacity {:+.1} % (95 % CI {:+.1} to {:+.1} %)",
                change * 100.0,
                low * 100.0,
                high * 100.0
            ),
            None => "no capacity could be measured".to_owned(),
        };
        let now = self.now.map_or(String::new(), |now| {
            format!(", {:.0} against {:.0} concurrent", now.capacity, self.test.baseline.capacity)
        });
        let loss = percent(self.test.max_loss);
        let cost = format!("{} trials, {}", self.trials, Seconds(self.seconds));
        match self.decision {
            GateDecision::Passed => format!("gate passed: {sure}{now}; margin {loss} %; {cost}"),
            GateDecision::Failed => format!("gate failed: {sure}{now}; margin {loss} %; {cost}"),
            GateDecision::Undecided => {
                format!("gate undecided at its budget: {sure}{now}; margin {loss} %; {cost}")
            }
        }
    }

    /// The result as a JUnit file of one test case. An undecided gate is an error, a lost one a failure.
    pub fn junit(&self) -> String {
        let line = escape(&self.line());
        let (failures, errors, inside) = match self.decision {
            GateDecision::Passed => (0, 0, String::new()),
            GateDecision::Failed => {
                (1, 0, format!("\n      <failure type=\"capacity\" message=\"{line}\"/>"))
            }
            GateDecision::Undecided => {
                (0, 1, format!("\n      <error type=\"undecided\" message=\"{line}\"/>"))
            }
        };
        let seconds = self.seconds;
        let slo = escape(&self.slo.join(", "));
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"plimsoll gate\" tests=\"1\" \
             failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\" time=\"{seconds:.3}\">\n    <testcase \
             classname=\"plimsoll.gate\" name=\"capacity under {slo}\" time=\"{seconds:.3}\">{inside}\n      \
             <system-out>{line}</system-out>\n    </testcase>\n  </testsuite>\n</testsuites>\n"
        )
    }

    /// The result as an annotation of a GitHub workflow, on one line.
    pub fn github(&self) -> String {
        let level = match self.decision {
            GateDecision::Passed => "notice",
            GateDecision::Failed => "error",
            GateDecision::Undecided => "warning",
        };
        let line = self.line().replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
        format!("::{level} title=plimsoll gate::{line}\n")
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(decision: GateDecision) -> GateDocument {
        let baseline = Known { capacity: 55.0, log_sd: 0.02 };
        GateDocument {
            schema_version: 1,
            decision,
            test: GateTest { baseline, max_loss: 0.05, false_alarms: 0.05, misses: 0.05 },
            now: Some(Known { capacity: 48.0, log_sd: 0.02 }),
            change: Some((-0.127, -0.176, -0.075)),
            slo: vec!["ttft p95 < 60 ms".to_owned()],
            baseline: "runs/a".to_owned(),
            run: "runs/b".to_owned(),
            trials: 6,
            seconds: 31.0,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_failure_says_what_was_lost_in_each_form() {
        let failed = document(GateDecision::Failed);
        assert_eq!(
            failed.line(),
            "gate failed: capacity -12.7 % (95 % CI -17.6 to -7.5 %), 48 against 55 concurrent; margin 5.00 %; 6 trials, 31.0 s"
        );
        assert!(failed.github().starts_with("::error title=plimsoll gate::gate failed: capacity -12.7 %25"));
        assert_eq!(failed.github().lines().count(), 1);
        let junit = failed.junit();
        assert!(
            junit.contains("failures=\"1\" errors=\"0\"")
                && junit.contains("name=\"capacity under ttft p95 &lt; 60 ms\"")
        );
        assert!(document(GateDecision::Undecided).junit().contains("errors=\"1\""));
        assert!(!document(GateDecision::Passed).junit().contains("<failure"));
    }
}
