//! Errors about stored objects that cannot be converted to the requested version.

use kube_api_protocol::status::ApiError;

/// 500 `InternalError` about one object.
#[doc(alias = "NewCorruptObjError")]
pub(crate) fn object(key: &str, revision: u64, why: &ApiError) -> ApiError {
    ApiError::internal(text(key, revision, why))
}

/// What is wrong with one object.
pub(super) fn text(key: &str, revision: u64, why: &ApiError) -> String {
    let why = undecodable(revision, why);
    let why = why.message();
    format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    )
}

/// 500 about an object that was to be changed.
pub(crate) fn undecodable(revision: u64, why: &ApiError) -> ApiError {
    ApiError::unknown(format!(
        "object not decodable revision={revision}: {}",
        why.message()
    ))
}
