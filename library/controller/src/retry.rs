//! Retrying writes: conflicts, and the delay that a server asks for.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

/// The attempts of [`retry_on_conflict`] and the pause between them, as in client-go.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// Repeats a read-modify-write cycle that fails with a conflict (409), up to five times.
///
/// The function must read the object from the server each time, because the cache may still be stale. A reconciler
/// usually needs no such loop, because an error leads to another run; use it where the rest of the run is expensive.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::{Api, api::PostParams};
/// use kube_controller::retry_on_conflict;
///
/// # async fn example(maps: Api<ConfigMap>) -> kube::Result<()> {
/// let updated = retry_on_conflict(async || {
///     let mut map = maps.get("prices").await?;
///     map.data.get_or_insert_default().insert("cart".to_owned(), "3".to_owned());
///     maps.replace("prices", &PostParams::default(), &map).await
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// That of the last attempt.
#[doc(alias = "DefaultRetry")]
#[doc(alias = "DefaultBackoff")]
#[doc(alias = "RetryOnConflict")]
#[doc(alias = "OnError")]
pub async fn retry_on_conflict<T, R>(mut attempt: impl FnMut() -> R) -> kube::Result<T>
where
    R: Future<Output = kube::Result<T>>,
{
    for _ in 1..ATTEMPTS {
        match attempt().await {
            // The reason tells an edit conflict from an object that exists already, which is a 409 too.
            Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "Conflict" => {}
            outcome => return outcome,
        }
        sleep(PAUSE.mul_f64(1.0 + 0.1 * fastrand::f64())).await;
    }
    attempt().await
}

/// The delay that the server asked for in an error, or in one of its sources.
pub(crate) fn retry_after(error: &(dyn Error + 'static)) -> Option<Duration> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>() {
            let seconds = status.details.as_ref()?.retry_after_seconds;
            return (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        }
        next = error.source();
    }
    None
}
