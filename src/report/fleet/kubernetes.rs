//! Values for an autoscaler.

use super::FleetDocument;

/// Which autoscaler is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autoscaler {
    /// Kubernetes' own `HorizontalPodAutoscaler`.
    Hpa,
    /// A `ScaledObject` of KEDA that asks Prometheus.
    Keda,
}

/// A manifest for the best fleet: one pod a server, held at the requests in flight that the plan says.
/// `None` where the run's load was not a concurrency.
pub fn manifest(document: &FleetDocument, autoscaler: Autoscaler) -> Option<String> {
    let best = document.fleets.first()?;
    let target = best.fleet.target_concurrency?;
    let (min, max) = best.replicas;
    let run: String = best.run.chars().filter(|c| !c.is_control()).collect();
    let safe = best.server.concurrency.map_or(0.0, |level| level.low.floor());
    let head = format!(
        "# From {run}: a pod is safe up to {safe} requests in flight under its SLO.\n\
         # At {rate:.1} requests/s, {max} pods hold {target} each. Put in the names of your own objects.\n",
        rate = best.fleet.rate,
    );
    let (running, waiting) = metrics(best.engine.as_deref());
    Some(match autoscaler {
        Autoscaler::Hpa => format!(
            "{head}apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: llm
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: llm
  minReplicas: {min}
  maxReplicas: {max}
  metrics:
    - type: Pods
      pods:
        metric:
          # {running} + {waiting}, by an adapter for custom metrics
          name: requests_in_flight
        target:
          type: AverageValue
          averageValue: \"{target}\"
"
        ),
        Autoscaler::Keda => format!(
            "{head}apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: llm
spec:
  scaleTargetRef:
    name: llm
  minReplicaCount: {min}
  maxReplicaCount: {max}
  triggers:
    - type: prometheus
      metadata:
        serverAddress: http://prometheus:9090
        query: sum({running}) + sum({waiting})
        threshold: \"{target}\"
"
        ),
    })
}

/// What the engine calls its running and waiting requests.
fn metrics(engine: Option<&str>) -> (&'static str, &'static str) {
    match engine {
        Some("sglang") => ("sglang:num_running_reqs", "sglang:num_queue_reqs"),
        Some("llama_server" | "llama-server") => {
            ("llamacpp:requests_processing", "llamacpp:requests_deferred")
        }
        _ => ("vllm:num_requests_running", "vllm:num_requests_waiting"),
    }
}
