//! Loads manifests: files, directories, and the dumps of `kubectl get -o yaml`.

use std::io;
use std::path::{Path, PathBuf};

use kube_api_protocol::status::ApiError;
use serde_json::{Value, json};

use super::TestServer;
use super::objects::namespace_of;
use crate::manifest;
use crate::write::{self, NewObject, Place};

/// Manifests.
impl TestServer {
    /// Creates the objects of a YAML or JSON file, or of all such files in a directory, in the order of their names;
    /// returns the number of objects.
    ///
    /// Built-in objects get the defaults of a real server. Status, uid and creation time are kept, so that a dump of a real
    /// cluster can be loaded. Missing namespaces are created. Definitions of custom kinds must come before their objects.
    ///
    /// # Errors
    ///
    /// A file cannot be read, is not a manifest, or contains an object that the server rejects; the text names the file and
    /// the object. The objects before it are stored.
    pub fn load_manifests(&self, path: impl AsRef<Path>) -> io::Result<usize> {
        let mut count = 0;
        for path in files(path.as_ref())? {
            let text = std::fs::read_to_string(&path).map_err(|error| {
                let text = format!("cannot read the manifest {}: {error}", path.display());
                io::Error::new(error.kind(), text)
            })?;
            count += self.load_manifest(&text).map_err(|error| {
                let text = format!("cannot use the manifest {}: {error}", path.display());
                io::Error::new(io::ErrorKind::InvalidData, text)
            })?;
        }
        Ok(count)
    }

    /// The same for the text of one manifest.
    pub(crate) fn load_manifest(&self, text: &str) -> Result<usize, String> {
        let objects = manifest::objects(text).map_err(|error| error.to_string())?;
        let count = objects.len();
        for (index, object) in objects.into_iter().enumerate() {
            let text = |pointer: &str| {
                let found = object.pointer(pointer).and_then(Value::as_str);
                found.unwrap_or_default().to_owned()
            };
            let (kind, name) = (text("/kind"), text("/metadata/name"));
            self.create_complete(object)
                .map_err(|error| format!("object {} ({kind} {name:?}): {error}", index + 1))?;
        }
        Ok(count)
    }

    /// Creates an object as given, and completes it with the defaults of its type.
    fn create_complete(&self, object: Value) -> Result<(), ApiError> {
        let kind = self.kind_of(&object)?;
        let namespace = namespace_of(&kind, &object);
        if let Some(namespace) = &namespace
            && self.state.config.require_namespaces
            && self.get_value("namespaces", namespace).is_none()
        {
            self.try_create(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
            }))?;
        }
        let stored_as = self.state.registry.read().stored(&kind);
        let place = Place {
            conformant: true,
            ..Place::of_test(&kind, &stored_as, namespace.as_deref(), "")
        };
        let new = NewObject::check(&place, object)?;
        self.state
            .write(|store| write::create(&self.state, store, &place, new))?;
        Ok(())
    }

    fn get_value(&self, collection: &str, key: &str) -> Option<Value> {
        let store = self.state.store.read();
        let objects = store.collection(collection)?;
        objects.get(key).map(|object| object.value())
    }
}

/// The file itself, or the manifests in a directory.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        let is_manifest = path
            .extension()
            .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known));
        if is_manifest && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
