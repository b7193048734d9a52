//! What simulated users ask for: the lengths of prompts and outputs.

use std::sync::Arc;

use crate::plan::{ClassPlan, Lengths, WorkloadPlan};
use crate::rng::Stream;

/// A distribution of lengths, tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Always the same.
    Fixed(u32),
    /// Lognormal, cut to `min..=max`, whole tokens.
    Lognormal {
        /// Arithmetic mean before the cut.
        mean: f64,
        /// Coefficient of variation.
        cv: f64,
        /// Shortest.
        min: u32,
        /// Longest.
        max: u32,
    },
    /// Any other distribution of a plan.
    Planned(Lengths),
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// How many of the requests are of this kind, relative to the other classes.
    pub weight: f64,
    /// Prompt lengths.
    pub isl: Shape,
    /// Output lengths.
    pub osl: Shape,
}

/// A mix of kinds of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    classes: Vec<Class>,
    /// The requests one by one, where they are given: then nothing is drawn.
    listed: Arc<[(u32, u32)]>,
    /// A plan whose users pause or hold conversations.
    users: Option<Box<WorkloadPlan>>,
}

/// Draws the lengths of one request after the other.
#[derive(Clone, Debug)]
pub struct Sampler {
    traffic: Traffic,
    total: f64,
    seed: u64,
    stream: Stream,
    /// Place among the requests that are listed.
    next: usize,
}

impl Shape {
    /// Draws a length, at least 1.
    pub fn sample(&self, stream: &mut Stream) -> u32 {
        match self {
            Shape::Fixed(tokens) => (*tokens).max(1),
            &Shape::Lognormal { mean, cv, min, max } => {
                let (min, max) = (f64::from(min.max(1)), f64::from(max.max(1)));
                stream.lognormal(mean, cv).min(max).max(min) as u32
            }
            Shape::Planned(lengths) => lengths.draw(stream),
        }
    }
}

impl From<Lengths> for Shape {
    fn from(lengths: Lengths) -> Self {
        match lengths {
            Lengths::Fixed { tokens } => Shape::Fixed(tokens),
            Lengths::Lognormal { mean, cv, min, max } => Shape::Lognormal { mean, cv, min, max },
            other => Shape::Planned(other),
        }
    }
}

impl Traffic {
    /// Requests of one kind.
    pub fn of(isl: impl Into<Shape>, osl: impl Into<Shape>) -> Self {
        Self::mix([Class { weight: 1.0, isl: isl.into(), osl: osl.into() }])
    }

    /// The requests of a trace, prompt and output length of each, as they came; after the last one the first
    /// comes again.
    pub fn listed(requests: impl Into<Arc<[(u32, u32)]>>) -> Self {
        Self { listed: requests.into(), ..Self::mix([]) }
    }

    /// The requests of a plan. Those of a file are drawn from its lengths, each by itself.
    pub fn planned(plan: &WorkloadPlan) -> Self {
        let users = plan.has_users().then(|| Box::new(plan.clone()));
        if plan.classes.is_empty() {
            return Self { users, ..Self::of(plan.isl.clone(), plan.osl.clone()) };
        }
        let class = |class: &ClassPlan| Class {
            weight: class.weight,
            isl: class.isl.clone().into(),
            osl: class.osl.clone().into(),
        };
        Self { users, ..Self::mix(plan.classes.iter().map(class).collect::<Vec<_>>()) }
    }

    /// Requests of several kinds. Without any class, requests have one token in and one out.
    pub fn mix(classes: impl Into<Vec<Class>>) -> Self {
        let mut classes = classes.into();
        if classes.is_empty() {
            classes.push(Class { weight: 1.0, isl: Shape::Fixed(1), osl: Shape::Fixed(1) });
        }
        Self { classes, listed: Arc::default(), users: None }
    }

    /// The plan of users who pause or hold conversations, where they do.
    pub fn users(&self) -> Option<&WorkloadPlan> {
        self.users.as_deref()
    }

    /// The classes, at least one.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }
}

impl Sampler {
    /// The requests of a run.
    pub fn new(traffic: Traffic, seed: u64) -> Self {
        let total = traffic.classes.iter().map(|class| class.weight).sum();
        Self { traffic, total, seed, stream: Stream::new(seed, "lengths"), next: 0 }
    }

    /// Begins anew: the same requests come again.
    pub fn restart(&mut self) {
        self.stream = Stream::new(self.seed, "lengths");
        self.next = 0;
    }

    /// Prompt and output length of the next request.
    pub fn draw(&mut self) -> (u32, u32) {
        if !self.traffic.listed.is_empty() {
            let request = self.traffic.listed[self.next % self.traffic.listed.len()];
            self.next += 1;
            return request;
        }
        let classes = &self.traffic.classes;
        let mut class = &classes[classes.len() - 1];
        if classes.len() > 1 {
            let mut at = self.stream.uniform() * self.total;
            for candidate in classes {
                at -= candidate.weight;
                if at < 0.0 {
                    class = candidate;
                    break;
                }
            }
        }
        (class.isl.sample(&mut self.stream), class.osl.sample(&mut self.stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_stay_within_their_cut() {
        let isl = Shape::Lognormal { mean: 100.0, cv: 2.0, min: 50, max: 200 };
        let mut sampler = Sampler::new(Traffic::of(isl, Shape::Fixed(7)), 1);
        let draws: Vec<(u32, u32)> = (0..5000).map(|_| sampler.draw()).collect();
        assert!(draws.iter().all(|&(isl, osl)| (50..=200).contains(&isl) && osl == 7));
        assert!(draws.iter().any(|&(isl, _)| isl == 50) && draws.iter().any(|&(isl, _)| isl == 200));
    }

    #[test]
    fn listed_requests_come_as_they_are_and_anew_when_asked() {
        let mut sampler = Sampler::new(Traffic::listed([(1, 2), (3, 4), (5, 6)]), 1);
        assert_eq!([sampler.draw(), sampler.draw()], [(1, 2), (3, 4)]);
        sampler.restart();
        let draws: Vec<(u32, u32)> = (0..4).map(|_| sampler.draw()).collect();
        assert_eq!(draws, [(1, 2), (3, 4), (5, 6), (1, 2)]);
    }

    #[test]
    fn a_mix_keeps_its_weights() {
        let class = |weight, tokens| Class { weight, isl: Shape::Fixed(tokens), osl: Shape::Fixed(1) };
        let mut sampler = Sampler::new(Traffic::mix([class(3.0, 1), class(1.0, 2)]), 1);
        let twos = (0..20_000).filter(|_| sampler.draw().0 == 2).count();
        assert!((4700..5300).contains(&twos), "{twos}");
    }
}
