//! The state of a server: saved in memory or to a file, restored into a new server, or forked.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::TestServer;
use super::builder::TestServerBuilder;
use crate::storage::Stored;

/// All objects of a server at one resource version. Cheap to clone: it shares the objects.
///
/// It does not contain the history, open watches, faults, and kinds declared in code; kinds declared by a
/// CustomResourceDefinition are part of it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_testserver::{TestServer, builders::pod};
///
/// let server = TestServer::new();
/// server.create(pod("shop", "cart"));
/// let before = server.snapshot();
/// server.delete::<Pod>("shop", "cart");
///
/// let restored = TestServer::builder().restore(before).build();
/// assert!(restored.get::<Pod>("shop", "cart").is_some());
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) revision: u64,
    /// The objects with their collection.
    pub(crate) objects: Vec<(Arc<str>, Arc<Stored>)>,
}

/// Never prints objects: some of them are secrets.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Snapshot({} objects at version {})",
            self.objects.len(),
            self.revision
        )
    }
}

/// The format of the file; a later one that older releases cannot read gets another number.
const FORMAT: u64 = 1;

impl Snapshot {
    /// The resource version of the state.
    pub fn resource_version(&self) -> u64 {
        self.revision
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Writes the state to a file: JSON, one object per line. It contains the values of Secrets.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut out = io::BufWriter::new(private_file(path.as_ref())?);
        let head = json!({ "kubeTestserverSnapshot": FORMAT, "resourceVersion": self.revision });
        writeln!(out, "{head}")?;
        for (collection, object) in &self.objects {
            write!(out, "{{\"collection\":{},\"object\":", Value::from(&**collection))?;
            out.write_all(object.bytes())?;
            out.write_all(b"}\n")?;
        }
        out.flush()
    }

    /// Reads the state from a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not a snapshot of this format; the text names the line.
    pub fn load(path: impl AsRef<Path>) -> io::Result<Snapshot> {
        let mut lines = io::BufReader::new(std::fs::File::open(path)?).lines();
        let head: Value = match lines.next().transpose()? {
            Some(line) => serde_json::from_str(&line).unwrap_or_default(),
            None => Value::Null,
        };
        let revision = head.get("resourceVersion").and_then(Value::as_u64);
        let (Some(FORMAT), Some(revision)) = (
            head.get("kubeTestserverSnapshot").and_then(Value::as_u64),
            revision,
        ) else {
            return Err(invalid(
                "line 1 is not the head of a snapshot: save it with `Snapshot::save`",
            ));
        };
        let mut objects = Vec::new();
        for (index, line) in lines.enumerate() {
            let object = parse(&line?).ok_or_else(|| {
                invalid(&format!(
                    "line {} is not an object of a snapshot: the file is damaged",
                    index + 2
                ))
            })?;
            objects.push(object);
        }
        Ok(Snapshot { revision, objects })
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// A file that only its owner can read: for snapshots, which contain Secrets, and kubeconfigs, which contain credentials.
pub(crate) fn private_file(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn parse(line: &str) -> Option<(Arc<str>, Arc<Stored>)> {
    let Value::Object(mut line) = serde_json::from_str(line).ok()? else {
        return None;
    };
    let Some(Value::Object(object)) = line.remove("object") else {
        return None;
    };
    let text = |object: &Map<String, Value>, name: &str| object.get(name)?.as_str().map(str::to_owned);
    let revision = object
        .get("metadata")?
        .get("resourceVersion")?
        .as_str()?
        .parse()
        .ok()?;
    let (api_version, kind) = (text(&object, "apiVersion")?, text(&object, "kind")?);
    let stored = Stored::encode(&api_version, &kind, &object, revision);
    Some((text(&line, "collection")?.into(), Arc::new(stored)))
}

/// State.
impl TestServer {
    /// The current objects, to be restored with [`TestServerBuilder::restore`].
    pub fn snapshot(&self) -> Snapshot {
        let store = self.state.store.read();
        let objects = store.collections().flat_map(|(collection, objects)| {
            objects
                .objects()
                .map(|object| (collection.clone(), object.clone()))
        });
        Snapshot {
            revision: store.revision(),
            objects: objects.collect(),
        }
    }

    /// Another server with the same settings, kinds and objects, at the same resource version. From here on the two change
    /// independently. The fork does not listen on a socket; see [`TestServer::listen`].
    pub fn fork(&self) -> TestServer {
        let registry = self.state.registry.read().clone();
        TestServerBuilder::from_config(self.state.config.clone(), registry)
            .restore(self.snapshot())
            .build()
    }
}
