//! The words for what can be seen, whatever an engine or a driver calls it.

/// Where a quantity is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The server's metrics page.
    Server,
    /// This machine.
    Host,
    /// GPUs, by the driver or an exporter.
    Gpu,
}

impl Source {
    /// Its name in `telemetry.jsonl`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Host => "host",
            Self::Gpu => "gpu",
        }
    }
}

/// How a quantity behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A state that goes up and down.
    Gauge,
    /// A total that only grows, until its process starts anew.
    Counter,
}

macro_rules! quantities {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $kind:ident, $source:ident;)+) => {
        /// Something that can be seen beside the requests. Times are seconds, shares 0..1, memory
        /// bytes, power watts, energy joules, clocks hertz.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Quantity {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Quantity {
            /// All of them, in order.
            pub const ALL: &'static [Quantity] = &[$(Quantity::$variant,)+];

            /// Its name in files.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// How it behaves.
            pub fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)+ }
            }

            /// Where it is read.
            pub fn source(self) -> Source {
                match self { $(Self::$variant => Source::$source,)+ }
            }
        }
    };
}

quantities! {
    /// Requests being computed.
    Running = "running", Gauge, Server;
    /// Requests in the queue.
    Waiting = "waiting", Gauge, Server;
    /// Share of the KV cache in use.
    KvUse = "kv_use", Gauge, Server;
    /// Share of prompt tokens found in the prefix cache, where the server gives it as such.
    PrefixHitRate = "prefix_hit_rate", Gauge, Server;
    /// Mean tokens a step of speculative decoding, where the server gives it as such.
    AcceptedLength = "accepted_length", Gauge, Server;
    /// When the server's process started, Unix time.
    Started = "process_start_time", Gauge, Server;
    /// Sequences that lost their KV cache.
    Preemptions = "preemptions", Counter, Server;
    /// Prompt tokens looked up in the prefix cache.
    PrefixQueries = "prefix_queries", Counter, Server;
    /// Prompt tokens found there.
    PrefixHits = "prefix_hits", Counter, Server;
    /// Prompt tokens processed.
    PromptTokens = "prompt_tokens", Counter, Server;
    /// Tokens produced.
    GenerationTokens = "generation_tokens", Counter, Server;
    /// Time in the queue, summed over `queue_count` requests.
    QueueSeconds = "queue_seconds", Counter, Server;
    /// Requests that left the queue.
    QueueCount = "queue_count", Counter, Server;
    /// Time from admission to first token, summed over `prefill_count` requests.
    PrefillSeconds = "prefill_seconds", Counter, Server;
    /// Requests whose prompt was processed.
    PrefillCount = "prefill_count", Counter, Server;
    /// Time from first to last token, summed over `decode_count` requests.
    DecodeSeconds = "decode_seconds", Counter, Server;
    /// Requests that were decoded to their end.
    DecodeCount = "decode_count", Counter, Server;
    /// Time to first token as the server sees it, summed over `ttft_count` requests.
    TtftSeconds = "ttft_seconds", Counter, Server;
    /// Requests that got a first token.
    TtftCount = "ttft_count", Counter, Server;
    /// Tokens proposed by speculative decoding.
    DraftTokens = "draft_tokens", Counter, Server;
    /// Of those, tokens that were kept.
    AcceptedTokens = "accepted_tokens", Counter, Server;
    /// Share of all processors that was busy.
    Cpu = "cpu", Gauge, Host;
    /// Share of all processors that this process took.
    CpuOwn = "cpu_own", Gauge, Host;
    /// Share of all processors that other processes took.
    CpuOthers = "cpu_others", Gauge, Host;
    /// Memory that is not available to a new process.
    MemoryUsed = "memory_used", Gauge, Host;
    /// Memory of the machine.
    MemoryTotal = "memory_total", Gauge, Host;
    /// Bytes received on all interfaces but loopback.
    NetReceived = "net_received", Counter, Host;
    /// Bytes sent on all interfaces but loopback.
    NetSent = "net_sent", Counter, Host;
    /// GPUs that were read.
    Gpus = "gpus", Gauge, Gpu;
    /// Power of all of them together.
    Power = "power", Gauge, Gpu;
    /// Energy of all of them together.
    Energy = "energy", Counter, Gpu;
    /// Memory in use on all of them.
    GpuMemoryUsed = "gpu_memory_used", Gauge, Gpu;
    /// Memory of all of them.
    GpuMemoryTotal = "gpu_memory_total", Gauge, Gpu;
    /// Mean clock of the multiprocessors.
    SmClock = "sm_clock", Gauge, Gpu;
    /// Mean clock of the memory.
    MemoryClock = "memory_clock", Gauge, Gpu;
    /// Highest temperature, degrees Celsius.
    Temperature = "temperature", Gauge, Gpu;
    /// Mean share of time and multiprocessors with work on them: how busy the chip is.
    SmActivity = "sm_activity", Gauge, Gpu;
    /// Mean share of the memory's bandwidth that was used.
    MemoryActivity = "memory_activity", Gauge, Gpu;
    /// Mean share of time in which any kernel ran: 1 does not mean that the chip is busy.
    KernelTime = "kernel_time", Gauge, Gpu;
    /// Share of the GPUs whose clocks were held back (by power, heat or the board).
    Throttled = "throttled", Gauge, Gpu;
}

/// How many there are.
const COUNT: usize = Quantity::ALL.len();

/// What one look at a source gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values([Option<f64>; COUNT]);

impl Default for Values {
    fn default() -> Self {
        Self([None; COUNT])
    }
}

impl Values {
    /// The value, if the source gave one.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        self.0[quantity as usize]
    }

    /// Notes a value; one that is no finite number counts as not given.
    pub fn set(&mut self, quantity: Quantity, value: f64) {
        self.0[quantity as usize] = value.is_finite().then_some(value);
    }

    /// Those that were given, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Quantity, f64)> + '_ {
        Quantity::ALL.iter().zip(&self.0).filter_map(|(&quantity, &value)| Some((quantity, value?)))
    }

    /// Whether nothing was given.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quantity_has_a_name_of_its_own() {
        let mut names: Vec<&str> = Quantity::ALL.iter().map(|quantity| quantity.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNT);
    }

    #[test]
    fn what_is_not_a_number_was_not_given() {
        let mut values = Values::default();
        values.set(Quantity::Running, f64::NAN);
        values.set(Quantity::Waiting, f64::INFINITY);
        assert!(values.is_empty());
        values.set(Quantity::Running, 0.0);
        assert_eq!(values.iter().collect::<Vec<_>>(), [(Quantity::Running, 0.0)]);
    }
}
