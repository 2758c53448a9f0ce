//! The logs of containers, which a test sets.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The logs that a test has set, by pod (`namespace/name`) and container.
#[derive(Debug, Default)]
pub(crate) struct Logs(Mutex<HashMap<(String, String), String>>);

impl Logs {
    pub(crate) fn set(&self, pod: &str, container: &str, text: String) {
        self.0.lock().insert((pod.to_owned(), container.to_owned()), text);
    }

    pub(crate) fn get(&self, pod: &str, container: &str) -> Option<String> {
        self.0
            .lock()
            .get(&(pod.to_owned(), container.to_owned()))
            .cloned()
    }
}
