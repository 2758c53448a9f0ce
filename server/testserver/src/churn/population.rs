//! The number of initial objects per resource: `pods=500,nodes=20`.

use std::fmt;
use std::str::FromStr;

/// The number of objects to create for each resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Population {
    counts: Vec<(String, usize)>,
}

/// A population that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PopulationError(String);

impl PopulationError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for PopulationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PopulationError {}

impl Population {
    /// No objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of objects of a resource.
    #[must_use]
    pub fn with(mut self, resource: impl Into<String>, count: usize) -> Self {
        let resource = resource.into();
        self.counts.retain(|(known, _)| *known != resource);
        self.counts.push((resource, count));
        self
    }

    /// The number for a resource, `None` if it was not given.
    pub fn count(&self, resource: &str) -> Option<usize> {
        self.counts
            .iter()
            .find(|(known, _)| known == resource)
            .map(|(_, count)| *count)
    }

    /// All resources and their numbers, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.counts
            .iter()
            .map(|(resource, count)| (resource.as_str(), *count))
    }

    /// Whether no resource was given.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

impl FromStr for Population {
    type Err = PopulationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut population = Self::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (resource, count) = part
                .split_once('=')
                .ok_or_else(|| PopulationError(format!("{part:?} has no number: write it as {part}=10")))?;
            let count: usize = count.trim().parse().map_err(|_| {
                PopulationError(format!(
                    "{count:?} is not a number of {resource}: write it as {resource}=10"
                ))
            })?;
            let resource = resource.trim();
            if resource.is_empty() {
                return Err(PopulationError(format!(
                    "{part:?} names no resource: write it as pods={count}"
                )));
            }
            if population.count(resource).is_some() {
                return Err(PopulationError(format!(
                    "{resource} is named twice: give one number for it"
                )));
            }
            population = population.with(resource, count);
        }
        Ok(population)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_and_numbers_are_parsed() {
        let population: Population = "pods=500, nodes=20,".parse().unwrap();
        assert_eq!(
            population.iter().collect::<Vec<_>>(),
            [("pods", 500), ("nodes", 20)]
        );
        assert_eq!(population.count("services"), None);
        assert!("".parse::<Population>().unwrap().is_empty());
    }

    #[test]
    fn parse_errors_name_the_part_and_the_fix() {
        let error = |text: &str| text.parse::<Population>().unwrap_err().to_string();
        assert_eq!(error("pods"), "\"pods\" has no number: write it as pods=10");
        assert_eq!(
            error("pods=many"),
            "\"many\" is not a number of pods: write it as pods=10"
        );
        assert_eq!(error("=3"), "\"=3\" names no resource: write it as pods=3");
        assert_eq!(
            error("pods=1,pods=2"),
            "pods is named twice: give one number for it"
        );
        assert_eq!(
            error("pods=-1"),
            "\"-1\" is not a number of pods: write it as pods=10"
        );
    }
}
