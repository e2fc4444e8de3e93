//! `downbeat init`: a scenario to begin with.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::output::{Failure, MET, Outcome};

/// Arguments of `init`.
#[derive(Args)]
#[command(after_help = "Example:\n  downbeat init bridged > bridged.toml")]
pub(crate) struct Arguments {
    /// Which template
    #[arg(value_parser = PossibleValuesParser::new(scenario::TEMPLATES.map(|template| {
        clap::builder::PossibleValue::new(template.name).help(template.about)
    })))]
    template: String,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let text = scenario::template(&self.template).ok_or_else(|| Failure::input("no such template"))?;
        print!("{text}");
        Ok(MET)
    }
}
