//! The controllers of a cluster, compared with kube-controller-manager.
//!
//! A [`Story`] writes objects as a user does and takes pictures of the namespace when nothing changes any more. It is played on a
//! real cluster with kube-controller-manager, whose pictures are stored in `verify/scenarios/tests/controllers`, and on the embedded server with
//! its own controllers. A real cluster has neither scheduler nor kubelet here: `kubelet` plays both, by the rules of the embedded
//! server's [`PodRule`](kube_testserver::PodRule)s.

mod compare;
mod kubelet;
mod picture;
mod stories;
mod world;

pub use compare::{Difference, differences};
pub use picture::Picture;
pub use stories::{STORIES, Story};
pub use world::World;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The pictures of a story, as they are stored.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Recording {
    /// Name and version of the recorded controllers.
    pub controllers: String,
    /// The objects of each picture, by the name of the picture.
    pub pictures: BTreeMap<String, Vec<Value>>,
}

impl Recording {
    /// The file of a story.
    pub fn path(story: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/controllers")
            .join(format!("{story}.json"))
    }

    /// Reads the pictures of a story.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no recording; the text names it.
    pub fn read(story: &str) -> Result<Recording, String> {
        let path = Recording::path(story);
        let failed = |why: &dyn std::fmt::Display| format!("cannot read {}: {why}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
        serde_json::from_str(&text).map_err(|error| failed(&error))
    }

    /// Stores the pictures of a story.
    ///
    /// # Errors
    ///
    /// The file cannot be written; the text names it.
    pub fn write(&self, story: &str) -> Result<(), String> {
        let path = Recording::path(story);
        let failed = |why: &dyn std::fmt::Display| format!("cannot write {}: {why}", path.display());
        let mut text = serde_json::to_string_pretty(self).map_err(|error| failed(&error))?;
        text.push('\n');
        std::fs::write(&path, text).map_err(|error| failed(&error))
    }
}
