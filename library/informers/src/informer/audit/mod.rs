//! The audit: verifies that a cache equals the collection on the server, although the watch looks healthy.
//!
//! Two things can be wrong. The server's history may have been replaced while the watch was interrupted, for example by a
//! restored backup: it accepts the last version, which now means something else. And the server's watch cache may have
//! lost an event. Both leave objects in the cache for ever that do not exist, while everything looks healthy.
//!
//! - A **probe** follows each interruption of the watch, and events that are older than the cache. It compares the first
//!   few objects of the collection and the one that changed last: at most three requests, of a few objects each.
//! - A **pass** compares the whole collection once a day, one page a minute.
//!
//! Both read *exactly the version the cache reports*, of which the cache is an exact copy by contract. Objects that change
//! during the comparison are left out. So there are no false alarms, whichever replica answers: one that lags serves an
//! exact version from the storage, or not at all. Where the version is no longer available, the newest one is read, and
//! compared when the cache has reached it.

mod page;
mod touched;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use super::drift::{AuditStats, Drift};
use super::member::Member;
use super::process::InformerInner;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::reflector::report::Violation;
use crate::reflector::{AuditConfig, Doubt, JitterRng, Pages, ReflectorHandle, ReflectorState, RelistReason};
use crate::shard::Shard;
use crate::source::{ListRequest, ListerWatcher, ObjectIdentity, SourceError, VersionMatch};
use crate::store::Held;
use crate::version::ResourceVersion;
use page::{Page, compare, summary};

pub(super) use touched::Tracking;

/// The number of objects that a probe compares at first.
const PROBE_LIMIT: u32 = 10;
/// The number of objects that a probe compares if the collection has another size than the cache.
const LARGE_PROBE_LIMIT: u32 = 500;
/// The delay of a probe: long enough for the watch to prove stable, spread so that the informers of many processes do
/// not probe together.
const PROBE_DELAY: Duration = Duration::from_secs(3);
const PROBE_SPREAD: Duration = Duration::from_secs(12);
/// The minimum time between two probes. With three requests each they stay within the request budget.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);
/// For the whole response to one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// For the cache to reach the version of a page. Bookmarks arrive about once a minute.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(150);
/// The minimum time between two relists because of differences. If a relist does not help, the server contradicts itself.
const RELIST_INTERVAL: Duration = Duration::from_secs(600);
/// The number of failed pages after which a pass is abandoned.
const MAX_FAILURES: u32 = 3;

/// The result of a comparison.
#[derive(Debug)]
enum Verdict {
    Agrees,
    Differs {
        version: String,
        found: Vec<Drift>,
    },
    /// The newest version of the server is older than the cache.
    Rewound {
        server: String,
        cached: String,
    },
    Inconclusive(String),
}

/// The state of the cache when a comparison began. Later changes are tracked.
#[derive(Clone)]
struct Start {
    version: String,
    shard: Option<Shard>,
}

/// The progress of a pass over the collection.
#[derive(Default)]
struct Pass {
    began: Option<Instant>,
    list: Option<(Start, Pages)>,
    /// The request for the next page; `None` for the first one.
    next: Option<ListRequest>,
    after: Option<ObjectKey>,
    failures: u32,
}

/// Audits one watch of an informer.
pub(super) struct Auditor<K> {
    source: Arc<dyn ListerWatcher<K>>,
    member: Arc<Member<K>>,
    config: AuditConfig,
    rng: JitterRng,
    last_probe: Option<Instant>,
    last_relist: Option<Instant>,
    pass: Pass,
}

impl<K: Object> Auditor<K> {
    pub(super) fn new(
        source: Arc<dyn ListerWatcher<K>>,
        member: Arc<Member<K>>,
        config: AuditConfig,
        rng: JitterRng,
    ) -> Self {
        Self {
            source,
            member,
            config,
            rng,
            last_probe: None,
            last_relist: None,
            pass: Pass::default(),
        }
    }

    /// Runs until the future is dropped.
    pub(super) async fn run(mut self, informer: &InformerInner<K>) {
        let reflector = &self.member.reflector.clone();
        let mut page_at = self.first_page();
        loop {
            let page_due = async {
                match page_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // Both are cancel-safe: a doubt stays until it is taken, and the time does not change.
            tokio::select! {
                biased;
                doubt = reflector.doubted() => {
                    if self.config.probe {
                        // Boxed, like the page: an audit that rests must not occupy the memory of one that runs.
                        Box::pin(self.probe(informer, reflector, doubt)).await;
                    }
                }
                () = page_due => page_at = Some(Box::pin(self.page(informer, reflector)).await),
            }
        }
    }

    /// The first pass begins within the first half of the period, but not in the first hour: many programs do not live
    /// that long, and those that do not start again together.
    fn first_page(&mut self) -> Option<Instant> {
        let period = self.config.period?;
        let earliest = period.min(Duration::from_secs(3600));
        let spread = (period / 2).saturating_sub(earliest).mul_f64(self.rng.next());
        Some(Instant::now() + earliest + spread)
    }

    async fn probe(&mut self, informer: &InformerInner<K>, reflector: &ReflectorHandle, doubt: Doubt) {
        let began = Instant::now();
        let delayed = began + PROBE_DELAY + PROBE_SPREAD.mul_f64(self.rng.next());
        let earliest = self.last_probe.map_or(delayed, |last| last + PROBE_INTERVAL);
        sleep_until(delayed.max(earliest)).await;
        // If the watch was interrupted again, there is a new doubt as soon as it is open. A watch that never lasts is not
        // verified: its requests use up the budget.
        if !matches!(reflector.state(), ReflectorState::Watching { since } if since <= began) {
            return;
        }
        self.last_probe = Some(Instant::now());
        self.count(|stats| stats.probes += 1);
        debug!(informer = %informer.name, ?doubt, "verifying the cache");
        // A pass shares the tracking and starts over.
        self.pass = Pass::default();

        let mut verdict = self.sample(informer, PROBE_LIMIT, None).await;
        if matches!(verdict, Verdict::Agrees) {
            // What changed last is what a restored backup does not have.
            let is_newer = |left: &str, right: &str| {
                ResourceVersion::compare(left, right) == Some(std::cmp::Ordering::Greater)
            };
            if let Some(newest) = informer.store.newest_of_member(self.member.id, is_newer) {
                verdict = self.sample(informer, 1, Some(&newest)).await;
            }
        }
        self.member.tracking.stop();
        self.conclude(informer, reflector, verdict, RelistReason::Rewind);
    }

    /// Compares the first objects of the collection, or only one.
    async fn sample(&self, informer: &InformerInner<K>, limit: u32, only: Option<&ObjectKey>) -> Verdict {
        let Some(start) = self.start(informer) else {
            return Verdict::Inconclusive("the cache has no version".to_owned());
        };
        let (page, is_newest) = match self.read(&start, limit, only).await {
            Ok(read) => read,
            Err(error) => return Verdict::Inconclusive(error.to_string()),
        };
        let verdict = self.verify(informer, &start, &page, is_newest, None, only).await;
        let is_large = limit < LARGE_PROBE_LIMIT && page.is_followed();
        let may_differ =
            matches!(verdict, Verdict::Agrees) && only.is_none() && start.shard.is_none() && is_large;
        if may_differ && self.sizes_differ(informer, &page) {
            // The number is an estimate, so it proves nothing. A larger sample may.
            return Box::pin(self.sample(informer, LARGE_PROBE_LIMIT, None)).await;
        }
        verdict
    }

    fn sizes_differ(&self, informer: &InformerInner<K>, page: &Page) -> bool {
        let (_, cached) = informer.store.keys_of_member(self.member.id, |_| false);
        page.total().is_some_and(|total| total != cached as u64)
    }

    /// Compares the next page of a pass. Returns the time of the page after it.
    async fn page(&mut self, informer: &InformerInner<K>, reflector: &ReflectorHandle) -> Instant {
        let now = Instant::now();
        let next = now + self.config.page_interval;
        if !matches!(reflector.state(), ReflectorState::Watching { .. }) {
            return next;
        }
        let began = *self.pass.began.get_or_insert(now);
        let (page, verdict) = match self.next_page(informer).await {
            Ok(read) => read,
            Err(error) => {
                debug!(informer = %informer.name, %error, "a page could not be compared");
                self.count(|stats| stats.inconclusive += 1);
                self.pass.failures += 1;
                return if self.pass.failures < MAX_FAILURES {
                    next
                } else {
                    self.end_pass(began)
                };
            }
        };
        self.count(|stats| stats.pages += 1);
        let is_repaired = matches!(verdict, Verdict::Differs { .. } | Verdict::Rewound { .. });
        let is_outdated = self.touched(touched::Touched::is_everything);
        self.conclude(informer, reflector, verdict, RelistReason::Drift);
        if is_repaired {
            return self.end_pass(began);
        }
        if is_outdated {
            // The cache was replaced: the changes since the first page are not known. Start over.
            self.pass = Pass {
                began: Some(began),
                ..Pass::default()
            };
            return next;
        }
        self.pass.after = page.last().or(self.pass.after.take());
        self.pass.failures = 0;
        if self.pass.next.is_some() {
            return next;
        }
        self.count(|stats| {
            stats.passes += 1;
            stats.last_pass = Some(Instant::now());
        });
        self.end_pass(began)
    }

    fn end_pass(&mut self, began: Instant) -> Instant {
        self.member.tracking.stop();
        self.pass = Pass::default();
        let period = self.config.period.unwrap_or(Duration::MAX / 4);
        (began + period).max(Instant::now() + self.config.page_interval)
    }

    async fn next_page(&mut self, informer: &InformerInner<K>) -> Result<(Page, Verdict), SourceError> {
        let no_version = || SourceError::Request("the cache has no version".to_owned());
        let limit = self.config.page_size;
        let (page, is_newest) = match self.pass.next.clone() {
            Some(request) => match self.fetch(request, None).await {
                Ok(page) => (page, false),
                // Tokens live for a few minutes only. The server offers one that continues at the newest version.
                Err(error) if error.is_expired() => {
                    let token = error.api().and_then(|error| error.continue_token.clone());
                    let start = self.start(informer).ok_or_else(no_version)?;
                    let pages = Pages::new(page_request(&start, limit), u32::MAX);
                    let request = pages.continued(&token.ok_or(error)?);
                    let page = self.fetch(request, None).await?;
                    self.pass.list = Some((start, pages));
                    (page, true)
                }
                Err(error) => return Err(error),
            },
            None => {
                let start = self.start(informer).ok_or_else(no_version)?;
                // The pages of each pass end at other objects: one that follows an expired token may be served from the
                // server's watch cache, which does not reveal what that cache lost.
                let first = limit - (f64::from(limit / 2) * self.rng.next()) as u32;
                let read = self.read(&start, first.max(1), None).await?;
                let pages = Pages::new(page_request(&start, limit), u32::MAX);
                self.pass.list = Some((start, pages));
                read
            }
        };
        let Some((start, pages)) = &mut self.pass.list else {
            return Err(no_version());
        };
        let next = pages.advance(&page.meta).map_err(Violation::into_error)?;
        let (start, after) = (start.clone(), self.pass.after.clone());
        let verdict = self
            .verify(informer, &start, &page, is_newest, after.as_ref(), None)
            .await;
        self.pass.next = next;
        Ok((page, verdict))
    }

    /// Begins a comparison: changes are tracked from now on.
    fn start(&self, informer: &InformerInner<K>) -> Option<Start> {
        let shard = &self.member.shard;
        self.member.tracking.start();
        if !shard.is_settled() || shard.is_empty() {
            return None;
        }
        // Read after the tracking began: a later change is in one of them at least.
        let version = informer.store.version_of(self.member.id)?;
        Some(Start {
            version,
            shard: shard.applied(),
        })
    }

    /// Reads the first page at exactly the version of the cache, or else at the newest one. Returns whether it is the
    /// newest.
    async fn read(
        &self,
        start: &Start,
        limit: u32,
        only: Option<&ObjectKey>,
    ) -> Result<(Page, bool), SourceError> {
        let exact = ListRequest {
            resource_version: Some(start.version.clone()),
            version_match: Some(VersionMatch::Exact),
            ..page_request(start, limit)
        };
        match self.fetch(exact, only).await {
            Ok(page) => Ok((page, false)),
            Err(SourceError::Api(error))
                if error.is_expired() || error.is_too_large_resource_version() || error.is_invalid() =>
            {
                Ok((self.fetch(page_request(start, limit), only).await?, true))
            }
            Err(error) => Err(error),
        }
    }

    async fn fetch(&self, request: ListRequest, only: Option<&ObjectKey>) -> Result<Page, SourceError> {
        let unsupported = || SourceError::Request("the source cannot list identities".to_owned());
        let items = self.source.identities(request, only).ok_or_else(unsupported)?;
        timeout(REQUEST_TIMEOUT, Page::read(items))
            .await
            .unwrap_or(Err(SourceError::Deadline {
                what: "page to compare",
                after: REQUEST_TIMEOUT,
            }))
    }

    /// Compares a page with the cache.
    async fn verify(
        &self,
        informer: &InformerInner<K>,
        start: &Start,
        page: &Page,
        is_newest: bool,
        after: Option<&ObjectKey>,
        only: Option<&ObjectKey>,
    ) -> Verdict {
        let Some(version) = &page.meta.resource_version else {
            return Verdict::Inconclusive("the page has no version".to_owned());
        };
        let order = ResourceVersion::compare(version, &start.version);
        match order {
            Some(std::cmp::Ordering::Less) if is_newest => {
                return Verdict::Rewound {
                    server: version.clone(),
                    cached: start.version.clone(),
                };
            }
            Some(std::cmp::Ordering::Greater) => {
                // What has not changed since the version of the cache can be compared at once.
                let is_old = |item: &&ObjectIdentity| {
                    let version = item.object_version();
                    version.is_some_and(|version| {
                        ResourceVersion::compare(version, &start.version) != Some(std::cmp::Ordering::Greater)
                    })
                };
                let found = self.differences(informer, page.items.iter().filter(is_old));
                if !found.is_empty() {
                    return differs(version, found);
                }
                if !informer.reaches(&self.member, version, CATCH_UP_TIMEOUT).await {
                    return Verdict::Inconclusive(format!(
                        "the cache did not reach version {version} in time"
                    ));
                }
            }
            Some(std::cmp::Ordering::Equal) => {}
            _ if *version == start.version => {}
            _ => return Verdict::Inconclusive(format!("version {version} was not requested")),
        }
        let mut found = self.differences(informer, page.items.iter());
        found.extend(self.ghosts(informer, page, after, only));
        let is_changing = self.touched(touched::Touched::is_everything);
        if is_changing {
            return Verdict::Inconclusive("the collection was fetched again".to_owned());
        }
        found.retain(|drift| !self.touched(|touched| touched.contains(&drift.key)));
        self.count(|stats| stats.objects += page.items.len() as u64);
        if found.is_empty() {
            Verdict::Agrees
        } else {
            differs(version, found)
        }
    }

    /// The objects of a page that the cache does not hold in the same version.
    fn differences<'a>(
        &self,
        informer: &InformerInner<K>,
        items: impl Iterator<Item = &'a ObjectIdentity>,
    ) -> Vec<Drift> {
        // A transform that drops objects leaves no trace of them.
        let drops = self.member.reflector.stats().dropped > 0;
        let found = items.filter_map(|item| {
            let key = ObjectKey::of(item);
            let drift = compare(item, &informer.store.held(&key))?;
            (drift.cached.is_some() || !drops).then_some(drift)
        });
        found
            .filter(|drift| !self.touched(|touched| touched.contains(&drift.key)))
            .collect()
    }

    /// The cached objects that a page should contain and does not.
    fn ghosts(
        &self,
        informer: &InformerInner<K>,
        page: &Page,
        after: Option<&ObjectKey>,
        only: Option<&ObjectKey>,
    ) -> Vec<Drift> {
        let Some(range) = page.range(after) else {
            return Vec::new();
        };
        let mut listed: HashSet<ObjectKey> = page.items.iter().map(ObjectKey::of).collect();
        listed.extend(page.unreadable.iter().cloned());
        let is_absent = |key: &ObjectKey| {
            only.is_none_or(|only| only == key) && range.contains(key) && !listed.contains(key)
        };
        let (absent, _) = informer.store.keys_of_member(self.member.id, is_absent);
        let ghosts = absent
            .into_iter()
            .filter_map(|key| match informer.store.held(&key) {
                Held::Object(cached) => Some(Drift {
                    key,
                    cached: cached.object_version().map(str::to_owned),
                    server: None,
                }),
                Held::Quarantined | Held::Nothing => None,
            });
        ghosts.collect()
    }

    fn touched<T>(&self, read: impl FnOnce(&touched::Touched) -> T) -> T {
        self.member.tracking.read(read)
    }

    fn count(&self, change: impl FnOnce(&mut AuditStats)) {
        change(&mut self.member.audit.lock());
    }

    /// Reports a verdict, and has the collection fetched again if the cache is wrong.
    fn conclude(
        &mut self,
        informer: &InformerInner<K>,
        reflector: &ReflectorHandle,
        verdict: Verdict,
        reason: RelistReason,
    ) {
        let name = &informer.name;
        let (reason, text) = match verdict {
            Verdict::Agrees => {
                debug!(informer = %name, "the cache agrees with the server");
                return;
            }
            Verdict::Inconclusive(why) => {
                debug!(informer = %name, why, "the cache could not be verified");
                self.count(|stats| stats.inconclusive += 1);
                return;
            }
            Verdict::Rewound { server, cached } => {
                self.last_relist = None;
                let text = format!(
                    "the newest version of the server is {server}, the cache is at {cached}: the server's history was \
                     replaced, for example by a restored backup"
                );
                (RelistReason::Rewind, text)
            }
            Verdict::Differs { version, found } => {
                let cause = match reason {
                    RelistReason::Rewind => {
                        "the server's history was replaced, for example by a restored backup"
                    }
                    _ => "an event was lost",
                };
                let text = format!(
                    "at version {version} the cache differs from the server in {}; {cause}",
                    summary(&found)
                );
                self.count(|stats| {
                    stats.drifted += found.len() as u64;
                    stats.last_drift = found.into_iter().take(100).collect();
                });
                (reason, text)
            }
        };
        let now = Instant::now();
        let is_repeated =
            (self.last_relist).is_some_and(|last| now.saturating_duration_since(last) < RELIST_INTERVAL);
        if is_repeated {
            warn!(informer = %name, "{text}; it was listed again recently and is not listed now");
            return;
        }
        warn!(informer = %name, "{text}; listing again");
        self.last_relist = Some(now);
        reflector.request_relist(reason, SourceError::Malformed(text));
    }
}

fn differs(version: &str, found: Vec<Drift>) -> Verdict {
    Verdict::Differs {
        version: version.to_owned(),
        found,
    }
}

fn page_request(start: &Start, limit: u32) -> ListRequest {
    ListRequest {
        limit: Some(limit),
        shard: start.shard.clone(),
        ..ListRequest::default()
    }
}
