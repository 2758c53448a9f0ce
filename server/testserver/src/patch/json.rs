//! JSON patch (RFC 6902), with limits on how far its operations can inflate an object.

use std::io;

use json_patch::PatchOperation;
use kube_api_protocol::go_json;
use kube_api_protocol::nesting::{DEEPEST, is_deeper};
use serde_json::Value;

use super::{PatchError, parse, undecodable};

/// The maximum number of operations in a JSON patch.
pub(super) const MAX_OPERATIONS: usize = 10_000;

/// The maximum number of bytes that all copies together may add. Without it, forty operations double an object forty
/// times.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Applies a JSON patch atomically.
pub fn json_patch(object: &Value, patch: &[u8]) -> Result<Value, PatchError> {
    let patch = match parse(patch)? {
        list @ Value::Array(_) => list,
        Value::Null => Value::Array(Vec::new()),
        other => return Err(undecodable(go_json::mismatch(&other, "[]handlers.jsonPatchOp"))),
    };
    let patch: json_patch::Patch = serde_json::from_value(patch).map_err(undecodable)?;
    if patch.0.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            patch.0.len()
        )));
    }
    let mut result = object.clone();
    let mut copied = 0;
    for operation in &patch.0 {
        // A test for null also passes if the field is missing, as on a real server.
        if let PatchOperation::Test(test) = operation
            && test.value.is_null()
            && result.pointer(test.path.as_str()).is_none()
        {
            continue;
        }
        check_growth(&result, operation, &mut copied)?;
        json_patch::patch(&mut result, std::slice::from_ref(operation))
            .map_err(|error| PatchError::Unprocessable(error.to_string()))?;
    }
    Ok(result)
}

/// Rejects an operation that would nest the object too deeply, or inflate it by copying.
fn check_growth(object: &Value, operation: &PatchOperation, copied: &mut usize) -> Result<(), PatchError> {
    let (path, value) = match operation {
        PatchOperation::Add(add) => (&add.path, Some(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value)),
        PatchOperation::Copy(copy) => (&copy.path, object.pointer(copy.from.as_str())),
        PatchOperation::Move(moved) => (&moved.path, object.pointer(moved.from.as_str())),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    let Some(value) = value else { return Ok(()) };
    let room = DEEPEST.checked_sub(path.tokens().count());
    if room.is_none_or(|room| is_deeper(value, room)) {
        return Err(PatchError::Unprocessable(format!(
            "the object would be nested deeper than {DEEPEST} levels"
        )));
    }
    if matches!(operation, PatchOperation::Copy(_)) {
        *copied += size_of(value);
        if *copied > MAX_COPIED {
            return Err(PatchError::TooLarge(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit \
                 {MAX_COPIED}"
            )));
        }
    }
    Ok(())
}

/// The length of a value's JSON.
fn size_of(value: &Value) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // Serializing a `Value` cannot fail; if it did, the value would count as too large.
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn copies_cannot_inflate_an_object() {
        let object = json!({ "spec": { "filling": "x".repeat(1000) } });
        let doubling: Vec<Value> = (0..40)
            .map(|n| json!({"op": "copy", "from": "/spec", "path": format!("/spec/{n}")}))
            .collect();

        let error = json_patch(&object, Value::from(doubling).to_string().as_bytes()).unwrap_err();

        assert_eq!((error.code(), error.reason()), (413, "RequestEntityTooLarge"));
    }

    #[test]
    fn operations_cannot_nest_without_limit() {
        let mut path = String::new();
        let mut digging = Vec::new();
        for _ in 0..200 {
            path.push_str("/a");
            digging.push(json!({"op": "add", "path": path, "value": {}}));
        }

        let error = json_patch(&json!({}), Value::from(digging).to_string().as_bytes()).unwrap_err();

        assert_eq!(error.code(), 422);
        let nested = json!([{"op": "copy", "from": "", "path": "/a"}]).to_string();
        assert!(json_patch(&json!({}), nested.as_bytes()).is_ok());
    }
}
