//! The discovery cache on disk, in kubectl's layout, so that both share it.
//!
//! `DIR/discovery/HOST_PORT/servergroups.json` and `…/GROUP/VERSION/serverresources.json`, for six hours. What cannot
//! be read, is too old or incomplete is ignored; a cache that cannot be written is skipped.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::documents::{Documents, GroupList, ResourceList};

/// kubectl's.
const TIME_TO_LIVE: Duration = Duration::from_secs(6 * 60 * 60);

/// The cache of one server.
pub struct Cache {
    directory: PathBuf,
}

impl Cache {
    /// The cache of `server` (an URL) below `directory`.
    pub fn new(directory: &Path, server: &str) -> Self {
        Self {
            directory: directory.join("discovery").join(host_directory(server)),
        }
    }

    /// The cached documents, if they are fresh and complete.
    pub fn read(&self) -> Option<Documents> {
        let groups: GroupList = fresh(&self.directory.join("servergroups.json"))?;
        let mut resources = Vec::new();
        for version in groups.groups.iter().flat_map(|group| &group.versions) {
            let list: ResourceList = fresh(&self.resources_file(&version.group_version)?)?;
            resources.push(list);
        }
        (!resources.is_empty()).then_some(Documents { groups, resources })
    }

    /// Stores the documents. Failures are ignored: a missing cache costs time, not results.
    pub fn write(&self, documents: &Documents) {
        let written = self.try_write(documents);
        if let Err(error) = written {
            tracing::debug!(%error, directory = %self.directory.display(), "discovery is not cached");
        }
    }

    fn try_write(&self, documents: &Documents) -> io::Result<()> {
        for list in &documents.resources {
            if let Some(file) = self.resources_file(&list.group_version) {
                replace(&file, list)?;
            }
        }
        // Last: with it the cache is complete.
        replace(&self.directory.join("servergroups.json"), &documents.groups)
    }

    /// `None` for what would lead out of the directory: group versions come from the server.
    fn resources_file(&self, group_version: &str) -> Option<PathBuf> {
        let safe =
            |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', '\0', ':']);
        let parts: Vec<&str> = group_version.split('/').collect();
        (parts.len() <= 2 && parts.iter().all(|part| safe(part)))
            .then(|| self.directory.join(group_version).join("serverresources.json"))
    }
}

/// `https://10.0.0.1:6443` as `10.0.0.1_6443`, as kubectl does it: what is no letter, digit, `_`, `.`, `/` or bracket
/// becomes `_`.
fn host_directory(server: &str) -> PathBuf {
    let host = server
        .strip_prefix("https://")
        .or_else(|| server.strip_prefix("http://"))
        .unwrap_or(server);
    let safe: String = host
        .chars()
        .map(|c| match c {
            '_' | '.' | '/' | '(' | ')' => c,
            c if c.is_ascii_alphanumeric() => c,
            _ => '_',
        })
        .collect();
    // A path of a proxied server stays a path below the directory, without steps up.
    safe.split('/')
        .filter(|part| !part.is_empty() && *part != "." && *part != "..")
        .collect()
}

fn fresh<T: DeserializeOwned>(file: &Path) -> Option<T> {
    let modified = fs::metadata(file).ok()?.modified().ok()?;
    // A file from the future counts as fresh, as for kubectl.
    let age = SystemTime::now().duration_since(modified).unwrap_or_default();
    if age > TIME_TO_LIVE {
        return None;
    }
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// Written to a temporary file and renamed, so that readers never see a partial file.
fn replace(file: &Path, document: &impl Serialize) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let aside = file.with_extension(format!("json.{}", std::process::id()));
    let written = fs::File::create(&aside)
        .and_then(|mut out| out.write_all(&serde_json::to_vec(document)?))
        .and_then(|()| fs::rename(&aside, file));
    if written.is_err() {
        // Best effort: the error that matters is the first.
        let _ = fs::remove_file(&aside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::discovery::documents::{ApiGroup, ApiResource, GroupVersion};

    fn documents() -> Documents {
        let version = |group_version: &str, version: &str| GroupVersion {
            group_version: group_version.to_owned(),
            version: version.to_owned(),
        };
        let group = |name: &str, only: GroupVersion| ApiGroup {
            name: name.to_owned(),
            versions: vec![only.clone()],
            preferred_version: Some(only),
        };
        let resource = |name: &str, kind: &str| ApiResource {
            name: name.to_owned(),
            kind: kind.to_owned(),
            verbs: vec!["list".to_owned(), "watch".to_owned()],
            ..ApiResource::default()
        };
        Documents {
            groups: GroupList::new(vec![
                group("", version("v1", "v1")),
                group("apps", version("apps/v1", "v1")),
            ]),
            resources: vec![
                ResourceList::new(
                    "v1".to_owned(),
                    vec![resource("pods", "Pod"), resource("pods/log", "Pod")],
                ),
                ResourceList::new("apps/v1".to_owned(), vec![resource("deployments", "Deployment")]),
            ],
        }
    }

    #[test]
    fn written_documents_are_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(directory.path(), "https://10.0.0.1:6443");
        assert_eq!(cache.read(), None);

        cache.write(&documents());

        assert_eq!(cache.read(), Some(documents()));
        assert!(
            directory
                .path()
                .join("discovery/10.0.0.1_6443/apps/v1/serverresources.json")
                .exists()
        );
    }

    #[test]
    fn broken_missing_or_old_entries_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(directory.path(), "http://h:1");
        let file = cache.directory.join("apps/v1/serverresources.json");

        cache.write(&documents());
        fs::write(&file, "{\"kind\":").unwrap();
        assert_eq!(cache.read(), None);

        cache.write(&documents());
        fs::remove_file(&file).unwrap();
        assert_eq!(cache.read(), None);

        cache.write(&documents());
        let old = SystemTime::now() - TIME_TO_LIVE - Duration::from_secs(60);
        fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(old)
            .unwrap();
        assert_eq!(cache.read(), None);
    }

    #[test]
    fn servers_are_named_as_kubectl_names_them() {
        let name = |server: &str| host_directory(server).display().to_string();
        assert_eq!(name("https://10.0.0.1:6443"), "10.0.0.1_6443");
        assert_eq!(name("https://api.example-cluster.org"), "api.example_cluster.org");
        assert_eq!(name("https://[::1]:6443"), "___1__6443");
        assert_eq!(
            name("https://rancher/k8s/clusters/c-1"),
            "rancher/k8s/clusters/c_1"
        );
        assert_eq!(name("https://h/../../etc"), "h/etc");
    }

    #[test]
    fn a_group_version_cannot_escape_the_cache_directory() {
        let cache = Cache::new(Path::new("/cache"), "http://h:1");
        for outside in ["../v1", "a/b/c", "..", "/v1", "a//b", ""] {
            assert_eq!(cache.resources_file(outside), None, "{outside}");
        }
    }
}
