//! Noise: fields that change all the time and say nothing about what happened. They are left out of diffs.
//!
//! Built-in profiles per kind, extended by the configuration file.

use std::sync::Arc;

use crate::objects::fields::FieldChange;
use crate::objects::kinds::Kind;
use crate::objects::path::{FieldPattern, ParsePathError};

/// Left out of every kind: they change with every write.
const EVERY_KIND: [&str; 2] = ["metadata.managedFields", "metadata.resourceVersion"];

/// Kind, group, and the fields that are noise there. `docs/reference/program.md` lists them; a test keeps both together.
pub const PROFILES: [(&str, &str, &[&str]); 6] = [
    ("Node", "", &["status.conditions[*].lastHeartbeatTime"]),
    ("Lease", "coordination.k8s.io", &["spec.renewTime"]),
    (
        "Endpoints",
        "",
        &["metadata.annotations[\"endpoints.kubernetes.io/last-change-trigger-time\"]"],
    ),
    (
        "EndpointSlice",
        "discovery.k8s.io",
        &["metadata.annotations[\"endpoints.kubernetes.io/last-change-trigger-time\"]"],
    ),
    (
        "ConfigMap",
        "",
        &["metadata.annotations[\"control-plane.alpha.kubernetes.io/leader\"]"],
    ),
    (
        "HorizontalPodAutoscaler",
        "autoscaling",
        &["status.currentMetrics", "status.conditions[*].message"],
    ),
];

/// The fields that are left out of the diffs of one kind.
#[derive(Clone, Debug, Default)]
pub struct Noise {
    patterns: Arc<[FieldPattern]>,
}

impl Noise {
    /// Nothing is left out.
    pub fn none() -> Self {
        Self::default()
    }

    /// The profile of a kind with additional fields.
    ///
    /// # Errors
    ///
    /// One of them is no path.
    pub fn of(kind: &Kind, more: &[String]) -> Result<Self, ParsePathError> {
        let own = PROFILES
            .iter()
            .filter(|(name, group, _)| *name == kind.kind && *group == kind.group)
            .flat_map(|(_, _, paths)| paths.iter().copied());
        let patterns = EVERY_KIND
            .into_iter()
            .chain(own)
            .chain(more.iter().map(String::as_str))
            .map(FieldPattern::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self { patterns })
    }

    /// Whether a change is noise.
    pub fn contains(&self, change: &FieldChange) -> bool {
        // Parsed once for all patterns: a change may have tens of thousands of fields.
        let Ok(field) = FieldPattern::parse(&change.field) else {
            return false;
        };
        self.patterns.iter().any(|pattern| pattern.contains_path(&field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(field: &str) -> FieldChange {
        FieldChange {
            path: String::new(),
            field: field.to_owned(),
            old: None,
            new: None,
        }
    }

    #[test]
    fn noise_is_the_field_and_what_is_in_it() {
        let node = Kind::for_tests("", "v1", "Node", "nodes");
        let noise = Noise::of(&node, &["status.images".to_owned()]).unwrap();
        for (field, expected) in [
            ("metadata.managedFields[0].time", true),
            ("metadata.resourceVersion", true),
            ("metadata.resourceVersions", false),
            ("metadata.generation", false),
            ("status.conditions[Ready].lastHeartbeatTime", true),
            ("status.conditions[Ready].status", false),
            ("status.images[0].names[1]", true),
        ] {
            assert_eq!(noise.contains(&change(field)), expected, "{field}");
        }
        let pod = Noise::of(&Kind::for_tests("", "v1", "Pod", "pods"), &[]).unwrap();
        assert!(!pod.contains(&change("status.conditions[Ready].lastHeartbeatTime")));
        assert!(!Noise::none().contains(&change("metadata.resourceVersion")));
    }

    #[test]
    fn a_field_that_is_no_path_is_an_error() {
        let pod = Kind::for_tests("", "v1", "Pod", "pods");
        assert!(Noise::of(&pod, &["a[".to_owned()]).is_err());
    }

    #[test]
    fn every_profile_is_documented() {
        let document = include_str!("../../../../docs/reference/program.md");
        for (kind, _, paths) in PROFILES {
            for path in paths {
                let row = format!("| {kind} | `{path}` |");
                assert!(document.contains(&row), "docs/reference/program.md lacks {row}");
            }
        }
    }
}
