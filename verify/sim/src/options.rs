//! Reads the command lines of the simulator and the fuzzer: options that each have a value.

use std::error::Error;
use std::process::ExitCode;

/// Whether a command found nothing wrong.
pub type Done = Result<bool, Box<dyn Error>>;

/// An option and its value.
pub struct Given {
    /// The option, as `--seeds`.
    pub option: String,
    /// The word after it.
    pub value: String,
}

impl Given {
    /// Pairs options with their values.
    ///
    /// # Errors
    ///
    /// The last option has no value.
    pub fn all(mut words: impl Iterator<Item = String>) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            all.push(Self { option, value });
        }
        Ok(all)
    }

    /// The value as a number.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn number(&self) -> Result<u64, String> {
        let number = self.value.parse();
        number.map_err(|_| format!("{}: {:?} is not a number", self.option, self.value))
    }

    /// The value as a number of hours.
    ///
    /// # Errors
    ///
    /// It is none, or more than a year.
    pub fn hours(&self) -> Result<f64, String> {
        let hours = self.value.parse().ok();
        hours
            .filter(|hours| (0.0..=10_000.0).contains(hours))
            .ok_or_else(|| format!("{}: {:?} is not a number of hours", self.option, self.value))
    }

    /// The error for an option that does not exist.
    #[must_use]
    pub fn unknown(&self) -> Box<dyn Error> {
        format!("there is no option {}; `help` lists them", self.option).into()
    }
}

/// Prints the error of a command, and returns how the program ends.
pub fn end(program: &str, result: Done) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(words: &[&str]) -> Result<Vec<Given>, String> {
        Given::all(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn an_option_without_a_value_is_named() {
        let error = given(&["--seeds", "5", "--from"]).err();

        assert_eq!(error.as_deref(), Some("--from needs a value"));
    }

    #[test]
    fn a_value_that_is_no_number_is_named_with_its_option() {
        let all = given(&["--seeds", "5", "--from", "five", "--hours", "-1"]).unwrap();

        assert_eq!(all[0].number(), Ok(5));
        assert_eq!(
            all[1].number(),
            Err("--from: \"five\" is not a number".to_owned())
        );
        assert_eq!(
            all[2].hours(),
            Err("--hours: \"-1\" is not a number of hours".to_owned())
        );
    }
}
