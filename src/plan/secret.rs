//! Secrets in commands and environments, by the names that they go under.

use super::engine::Argument;

/// Whether a variable of the environment or an option of a command of this name carries a secret:
/// `HF_TOKEN`, `--api-key`. Counts of tokens do not.
pub fn names_a_secret(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_lowercase().replace('-', "_");
    let last = name.rsplit('_').next().unwrap_or_default();
    ["token", "key", "apikey", "secret", "password", "passwd", "auth", "credential", "credentials"]
        .contains(&last)
}

/// Whether a text holds its secret by reference to the environment only: `${NAME}`.
fn is_reference(text: &str) -> bool {
    text.split_once("${").is_some_and(|(before, after)| before.is_empty() && after.ends_with('}'))
}

/// Replaces the secrets of a command's words by `mask`: what follows `--api-key`, or stands behind
/// its `=`. References to the environment (`${NAME}`) stay.
pub fn hide_in_words<'a>(words: impl IntoIterator<Item = &'a mut String>, mask: &str) {
    let mut follows = false;
    for word in words {
        if follows && !word.starts_with('-') && !is_reference(word) && !word.contains("{{") {
            mask.clone_into(word);
        }
        follows = word.starts_with('-') && names_a_secret(word);
        if let Some((name, value)) = word.split_once('=')
            && word.starts_with('-')
            && names_a_secret(name)
            && !is_reference(value)
        {
            *word = format!("{name}={mask}");
        }
    }
}

/// The same for a list of arguments.
pub fn hide_in_arguments(list: &mut [Argument], mask: &str) {
    let words = list.iter_mut().flat_map(|argument| match argument {
        Argument::Word(word) => vec![word],
        Argument::Group(group) => group.iter_mut().collect(),
        Argument::When(when) => when.args.iter_mut().chain(&mut when.otherwise).collect(),
    });
    hide_in_words(words, mask);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_counts_of_tokens() {
        for name in ["HF_TOKEN", "OPENAI_API_KEY", "--api-key", "DB_PASSWORD", "AWS_SECRET", "token"] {
            assert!(names_a_secret(name), "{name}");
        }
        for name in ["MAX_TOKENS", "--max-num-batched-tokens", "--tokenizer", "OMP_NUM_THREADS", "--keys"] {
            assert!(!names_a_secret(name), "{name}");
        }
    }

    #[test]
    fn a_commands_secrets_are_hidden_and_nothing_else() {
        let text = "serve --api-key sk-1 --token=t --port 80 --api-key ${KEY} --hf-token -x y";
        let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        hide_in_words(&mut words, "***");
        assert_eq!(
            words.join(" "),
            "serve --api-key *** --token=*** --port 80 --api-key ${KEY} --hf-token -x y"
        );
    }
}
