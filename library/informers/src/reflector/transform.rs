//! The transform: user code that changes or drops an object before the target receives it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::key::ObjectKey;
use crate::object::Object;
use crate::quarantine::{BadObject, Problem};
use crate::wire::Fetched;

/// Changes an object, drops it (`Ok(None)`), or fails, which quarantines the object.
#[doc(alias = "TransformFunc")]
pub type Transform<K> =
    Arc<dyn Fn(K) -> Result<Option<K>, Box<dyn std::error::Error + Send + Sync>> + Send + Sync>;

/// The result of a transform.
pub(super) enum Transformed<K> {
    Object(Arc<K>),
    Dropped {
        key: ObjectKey,
        resource_version: Option<String>,
    },
    Bad(BadObject),
}

/// Runs the transform exactly once per decoded object. Objects reused from the cache have been transformed before.
pub(super) fn transformed<K: Object>(
    transform: Option<&Transform<K>>,
    fetched: Fetched<K>,
) -> Transformed<K> {
    let mut object = match fetched {
        Fetched::Unchanged(object) => return Transformed::Object(object),
        Fetched::New(object) => object,
    };
    if object.object_name().is_empty() {
        return Transformed::Bad(BadObject {
            key: None,
            ..bad_object(&*object, Problem::Nameless)
        });
    }
    let Some(transform) = transform else {
        object.before_caching();
        return Transformed::Object(object.into());
    };

    // The object is moved into the closure, so its identity is copied first.
    let mut bad = bad_object(&*object, Problem::Nameless);
    let key = ObjectKey::of(&*object);
    match catch_unwind(AssertUnwindSafe(|| transform(*object))) {
        Ok(Ok(Some(object))) if object.object_name().is_empty() => {
            bad.problem = Problem::Transform("it removed the name".to_owned());
            Transformed::Bad(bad)
        }
        Ok(Ok(Some(mut object))) => {
            object.before_caching();
            Transformed::Object(Arc::new(object))
        }
        Ok(Ok(None)) => Transformed::Dropped {
            key,
            resource_version: bad.resource_version,
        },
        Ok(Err(error)) => {
            bad.problem = Problem::Transform(error.to_string());
            Transformed::Bad(bad)
        }
        // The panic message may quote the object, so it is not reported.
        Err(_) => {
            bad.problem = Problem::Transform("it panicked".to_owned());
            Transformed::Bad(bad)
        }
    }
}

fn bad_object<K: Object>(object: &K, problem: Problem) -> BadObject {
    BadObject {
        key: Some(ObjectKey::of(object)),
        uid: object.object_uid().map(str::to_owned),
        resource_version: object.object_version().map(str::to_owned),
        problem,
        size: 0,
    }
}
