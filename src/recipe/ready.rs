//! The recipes that come with the program.

/// A recipe that is compiled in.
#[derive(Clone, Copy, Debug)]
pub struct ReadyRecipe {
    /// Its name.
    pub name: &'static str,
    /// The file, comments and all, to be copied and changed.
    pub text: &'static str,
}

/// All of them, the general ones first.
pub const READY: [ReadyRecipe; 16] = [
    ReadyRecipe { name: "chat", text: include_str!("../../recipes/chat.toml") },
    ReadyRecipe { name: "conversations", text: include_str!("../../recipes/conversations.toml") },
    ReadyRecipe { name: "long-context", text: include_str!("../../recipes/long-context.toml") },
    ReadyRecipe { name: "batch", text: include_str!("../../recipes/batch.toml") },
    ReadyRecipe { name: "vllm", text: include_str!("../../recipes/vllm.toml") },
    ReadyRecipe { name: "llama-server", text: include_str!("../../recipes/llama-server.toml") },
    ReadyRecipe { name: "simulated", text: include_str!("../../recipes/simulated.toml") },
    ReadyRecipe { name: "vllm-managed", text: include_str!("../../recipes/vllm-managed.toml") },
    ReadyRecipe { name: "sglang-managed", text: include_str!("../../recipes/sglang-managed.toml") },
    ReadyRecipe {
        name: "tensorrt-llm-managed",
        text: include_str!("../../recipes/tensorrt-llm-managed.toml"),
    },
    ReadyRecipe {
        name: "llama-server-managed",
        text: include_str!("../../recipes/llama-server-managed.toml"),
    },
    ReadyRecipe { name: "simulated-managed", text: include_str!("../../recipes/simulated-managed.toml") },
    ReadyRecipe { name: "simulated-tune", text: include_str!("../../recipes/simulated-tune.toml") },
    ReadyRecipe { name: "prefill-curve", text: include_str!("../../recipes/prefill-curve.toml") },
    ReadyRecipe { name: "decode-surface", text: include_str!("../../recipes/decode-surface.toml") },
    ReadyRecipe { name: "pareto-shapes", text: include_str!("../../recipes/pareto-shapes.toml") },
];

impl ReadyRecipe {
    /// The recipe of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        READY.iter().find(|ready| ready.name == name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn every_file_of_the_recipes_folder_is_compiled_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/recipes");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
            .collect();
        files.sort();
        let mut names = READY.map(|ready| ready.name.to_owned()).to_vec();
        names.sort();
        assert_eq!(names, files);
    }
}
