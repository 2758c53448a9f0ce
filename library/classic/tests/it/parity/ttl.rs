//! client-go's `expiration_cache_test.go`.

use std::time::Duration;

use kube_informers_classic::TtlStore;
use tokio::time::{Instant, advance};

const TTL: Duration = Duration::from_secs(30);

/// Key and value, on tokio's clock.
type Pairs = TtlStore<(&'static str, &'static str), &'static str>;

fn pairs(ttl: Duration) -> Pairs {
    let start = Instant::now();
    TtlStore::with_key(
        |(key, _): &(&'static str, &'static str)| *key,
        ttl,
        move || start.elapsed(),
    )
}

/// Upstream: TestTTLExpirationBasic
#[tokio::test(start_paused = true)]
async fn an_expired_value_is_absent_and_its_key_is_dropped_on_read() {
    let store = pairs(TTL);
    store.insert(("foo", "bar"));

    advance(TTL + Duration::from_nanos(1)).await;

    assert_eq!(store.keys(), ["foo"], "listing keys expires nothing");
    assert_eq!(store.get("foo"), None);
    assert_eq!(store.keys(), [""; 0]);
}

/// Upstream: TestReAddExpiredItem
#[tokio::test(start_paused = true)]
async fn an_expired_value_can_be_inserted_again() {
    let store = pairs(TTL);
    store.insert(("foo", "bar"));
    advance(TTL * 2).await;
    assert_eq!(store.get("foo"), None);

    store.insert_for(Duration::ZERO, ("foo", "different_bar"));
    advance(TTL * 1000).await;

    assert_eq!(store.get("foo").map(|pair| pair.1), Some("different_bar"));
}

/// Upstream: TestTTLList
#[tokio::test(start_paused = true)]
async fn a_list_returns_unexpired_values_and_drops_the_rest() {
    let store = pairs(TTL);
    store.insert(("foo", "bar"));
    store.insert_for(Duration::ZERO, ("foo1", "bar1"));
    store.insert(("foo2", "bar2"));
    assert_eq!(store.list().len(), 3);

    advance(TTL * 2).await;

    let values: Vec<_> = store.list().iter().map(|pair| pair.1).collect();
    assert_eq!(values, ["bar1"]);
    assert_eq!(store.keys(), ["foo1"]);
}

/// Upstream: TestTTLPolicy
#[tokio::test(start_paused = true)]
async fn a_value_expires_when_it_is_strictly_older_than_its_time_to_live() {
    let (limited, unlimited) = (pairs(TTL), pairs(Duration::ZERO));
    limited.insert(("foo", "bar"));
    unlimited.insert(("foo", "bar"));

    assert!(limited.get("foo").is_some());
    advance(TTL).await;
    assert!(limited.get("foo").is_some(), "exactly as old");
    advance(Duration::from_nanos(1)).await;
    assert!(limited.get("foo").is_none());
    advance(TTL * 1000).await;
    assert!(unlimited.get("foo").is_some());
}

#[tokio::test(start_paused = true)]
async fn inserting_a_value_again_resets_its_age() {
    let store = pairs(TTL);
    store.insert(("foo", "bar"));
    advance(TTL).await;
    assert!(store.insert(("foo", "baz")).is_some());
    advance(TTL).await;

    assert_eq!(store.remove("foo").map(|pair| pair.1), Some("baz"));
    store.replace([("a", "1"), ("b", "2")]);
    advance(TTL * 2).await;
    assert_eq!(store.insert(("a", "3")), None, "the old value had expired");
    assert_eq!(store.remove("b"), None);
    assert_eq!(store.list().len(), 1);
}
