//! `plimsoll recipes`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use plimsoll::recipe::{Loaded, Purpose, READY, ReadyRecipe, Recipe};

use super::complaint::Complaint;
use super::exit::ExitCode;
use super::output;

/// List, show and check recipes: searches written down in TOML.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct Recipes {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the ready recipes.
    List,
    /// Print a ready recipe, to be copied and changed.
    Show {
        /// Name of the recipe.
        name: String,
    },
    /// Check a recipe of your own.
    Validate {
        /// The file.
        file: PathBuf,
    },
    /// Print the JSON schema of recipes, for editors.
    Schema,
}

const EXAMPLES: &str = "\
Example:
  plimsoll recipes show chat > my.toml
  plimsoll recipes validate my.toml
  plimsoll search --recipe my.toml";

impl Recipes {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let text = match self.command {
            Command::List => list()?,
            Command::Show { name } => match ReadyRecipe::find(&name) {
                Some(ready) => ready.text.to_owned(),
                None => return Err(unknown(&name).into()),
            },
            Command::Validate { file } => validate(&file)?,
            Command::Schema => schema()?,
        };
        output::print(&text)?;
        Ok(ExitCode::Answered)
    }
}

fn list() -> anyhow::Result<String> {
    let mut text = String::new();
    for ready in READY {
        let recipe = Recipe::from_toml(ready.text, ready.name)?;
        text += &format!("{:<16}{}\n", ready.name, recipe.description.unwrap_or_default());
    }
    Ok(text)
}

fn unknown(name: &str) -> Complaint {
    let names: Vec<String> = READY.iter().map(|ready| format!("`{}`", ready.name)).collect();
    Complaint::new(ExitCode::Usage, format!("no ready recipe is called `{name}`"))
        .hint(format!("there are {}", names.join(", ")))
}

/// A recipe without a server may be meant for `--url`, and one without an SLO for `--slo`: what the
/// flags can add is not missed here.
fn validate(file: &Path) -> anyhow::Result<String> {
    let Loaded { name, recipe } = Loaded::from_file(file)?;
    let target = &recipe.target;
    if target.url.is_some() || target.simulated.is_some() {
        recipe
            .into_plan(Some(&name), Purpose::Measure)
            .with_context(|| format!("recipe `{}`", file.display()))?;
    }
    Ok(format!("`{}` is valid\n", file.display()))
}

fn schema() -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&Recipe::json_schema())? + "\n")
}
