//! The configuration file: what a user adds to the built-in noise profiles.

use std::collections::BTreeMap;
use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::changes::noise::Noise;
use crate::objects::kinds::Kind;
use crate::process::failure::Failure;

/// The settings of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Fields that are noise, by kind as in `watch` (`nodes`, `widgets.example.com`); `*` for every kind.
    #[serde(default)]
    noise: BTreeMap<String, Vec<String>>,
    #[serde(skip)]
    file: PathBuf,
}

impl Config {
    /// The given file, which must exist, or else the usual one, if it exists.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or it is not valid.
    pub fn load(file: Option<&Path>) -> Result<Self, Failure> {
        let path = match file {
            Some(path) => path.to_owned(),
            None => match usual() {
                Some(path) => path,
                None => return Ok(Self::default()),
            },
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if file.is_none() && error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                return Err(Failure::error(format!(
                    "cannot read the configuration file {}: {error}",
                    path.display()
                )));
            }
        };
        Self::parse(&text, &path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        // A file of comments is an empty one.
        let only_comments = text
            .lines()
            .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        let config = match only_comments {
            true => Ok(Self::default()),
            false => serde_saphyr::from_str::<Self>(text),
        };
        config
            .map(|config| Self {
                file: path.to_owned(),
                ..config
            })
            .map_err(|error| {
                Failure::error(format!(
                    "the configuration file {} is not valid: {error}; see `noise` in the documentation of the program",
                    path.display()
                ))
            })
    }

    /// With these fields as noise of every kind.
    pub fn ignoring(mut self, paths: &[String]) -> Self {
        self.noise
            .entry("*".to_owned())
            .or_default()
            .extend_from_slice(paths);
        self
    }

    /// The noise of a kind: the built-in profile and what the file adds.
    ///
    /// # Errors
    ///
    /// A path in the file cannot be read.
    pub fn noise(&self, kind: &Kind) -> Result<Noise, Failure> {
        let names = [
            "*".to_owned(),
            kind.plural.clone(),
            kind.full_name(),
            kind.kind.clone(),
        ];
        let mut more: Vec<String> = Vec::new();
        for (name, paths) in &self.noise {
            if names.contains(name) {
                more.extend(paths.iter().cloned());
            }
        }
        Noise::of(kind, &more).map_err(|error| {
            Failure::error(format!(
                "in the configuration file {}: {error}",
                self.file.display()
            ))
        })
    }
}

/// `$XDG_CONFIG_HOME/kubectl-informers/config.yaml`, by default in `~/.config`.
fn usual() -> Option<PathBuf> {
    let base = env::var_os("XDG_CONFIG_HOME")
        .filter(|base| !base.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(env::home_dir()?.join(".config")))?;
    Some(base.join("kubectl-informers").join("config.yaml"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::fields::FieldChange;

    fn is_noise(config: &Config, kind: &Kind, field: &str) -> bool {
        config.noise(kind).unwrap().contains(&FieldChange {
            path: String::new(),
            field: field.to_owned(),
            old: None,
            new: None,
        })
    }

    #[test]
    fn fields_are_added_for_a_kind_or_for_all() {
        let text =
            "noise:\n  widgets.example.com: [status.beat]\n  '*': ['metadata.annotations[\"a.b/c\"]']\n";
        let config = Config::parse(text, Path::new("c")).unwrap();
        let widget = Kind::for_tests("example.com", "v1", "Widget", "widgets");
        let pod = Kind::for_tests("", "v1", "Pod", "pods");
        assert!(is_noise(&config, &widget, "status.beat"));
        assert!(!is_noise(&config, &pod, "status.beat"));
        assert!(is_noise(&config, &pod, "metadata.annotations[\"a.b/c\"]"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("nois: {}", "nois"),
            ("noise: [a]", "not valid"),
            ("noise: {", "not valid"),
        ] {
            let error = Config::parse(text, Path::new("c.yaml")).unwrap_err().to_string();
            assert!(error.contains("c.yaml") && error.contains(part), "{error}");
        }
        let config = Config::parse("noise: { pods: ['a['] }", Path::new("c.yaml")).unwrap();
        let error = config
            .noise(&Kind::for_tests("", "v1", "Pod", "pods"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("c.yaml") && error.contains("\"a[\""), "{error}");
        assert!(Config::parse("# nothing\n", Path::new("c")).is_ok());
    }
}
