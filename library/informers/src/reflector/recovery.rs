//! `RecoveryGroup`: what the reflectors that read from one server share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

/// Informers that read from the same server and recover from an outage together.
///
/// - When one of them reaches the server again, the others stop waiting and retry as well, spread over five seconds.
///   Delays requested by the server (429, Retry-After) are respected.
/// - At most two of them load their collection at the same time. Watches that resume at their last version load nothing
///   and are not limited. A load that has received nothing for two seconds no longer counts, so a stuck one does not
///   block the others.
/// - When many of their watches end at the same time, because a load balancer or a server drops all connections, ten of them
///   resume at once and the others are spread over five seconds. A single watch always resumes at once.
///
/// A [`SharedInformerFactory`](crate::SharedInformerFactory) has a group for its informers, and an informer outside of a
/// factory has one for its watches. Pass the same group to several of them if they read from the same server:
///
/// ```
/// use k8s_openapi::api::core::v1::{Node, Pod};
/// use kube_informers::Informer;
/// use kube_informers::reflector::{RecoveryGroup, ReflectorConfig};
///
/// # fn example(client: kube::Client) {
/// let config = ReflectorConfig { recovery: Some(RecoveryGroup::new()), ..Default::default() };
/// let pods = Informer::<Pod>::all(client.clone()).config(config.clone());
/// let nodes = Informer::<Node>::all(client).config(config);
/// # }
/// ```
///
/// A clone is another handle to the same group.
#[derive(Clone)]
pub struct RecoveryGroup {
    inner: Arc<GroupInner>,
}

struct GroupInner {
    /// Counts the announcements.
    reached: watch::Sender<u64>,
    announced: Mutex<Option<Instant>>,
    loads: Arc<Semaphore>,
    resumes: Mutex<Resumes>,
}

/// When the watches that have ended are resumed: a few at once, the others at a rate at which all members of the group need
/// at most five seconds.
#[derive(Default)]
struct Resumes {
    /// The time of the next one at that rate.
    next: Option<Instant>,
}

impl Resumes {
    /// How many resume at once.
    const BURST: u32 = 10;
    const SPREAD: Duration = Duration::from_secs(5);
    /// A watch that breaks again and again is limited by the pace of its own requests, not by this.
    const MAX_INTERVAL: Duration = Duration::from_millis(100);

    /// Reserves the time to resume one watch. Returns the delay until then.
    fn reserve(&mut self, now: Instant, members: usize) -> Duration {
        let interval = Self::SPREAD / u32::try_from(members).unwrap_or(u32::MAX).max(1);
        let interval = interval.min(Self::MAX_INTERVAL);
        let burst = interval * (Self::BURST - 1);
        // A member whose watches keep breaking must not delay the others any further.
        let latest = now + Self::SPREAD + burst;
        let next = self.next.map_or(now, |next| next.clamp(now, latest));
        self.next = Some(next + interval);
        next.saturating_duration_since(now).saturating_sub(burst)
    }
}

impl RecoveryGroup {
    const LOADS: usize = 2;
    /// Further announcements within this time are suppressed: after an outage every member reaches the server again, and
    /// each announcement would draw the rest closer together.
    const QUIET: Duration = Duration::from_secs(5);

    /// Creates a group whose members load two collections at a time.
    pub fn new() -> Self {
        Self::with_max_loads(Self::LOADS)
    }

    /// Creates a group whose members load this number of collections at a time, at least one.
    pub fn with_max_loads(loads: usize) -> Self {
        Self {
            inner: Arc::new(GroupInner {
                reached: watch::Sender::new(0),
                announced: Mutex::new(None),
                loads: Arc::new(Semaphore::new(loads.clamp(1, Semaphore::MAX_PERMITS))),
                resumes: Mutex::default(),
            }),
        }
    }

    /// The side of one reflector.
    pub(super) fn member(&self) -> GroupMember {
        GroupMember {
            reached: self.inner.reached.subscribe(),
            group: self.clone(),
        }
    }

    fn announce(&self, now: Instant) {
        let mut announced = self.inner.announced.lock();
        if announced.is_some_and(|last| now.saturating_duration_since(last) < Self::QUIET) {
            return;
        }
        *announced = Some(now);
        drop(announced);
        self.inner
            .reached
            .send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Default for RecoveryGroup {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RecoveryGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecoveryGroup")
            .field("members", &self.inner.reached.receiver_count())
            .finish_non_exhaustive()
    }
}

/// One reflector of a group.
pub(super) struct GroupMember {
    group: RecoveryGroup,
    reached: watch::Receiver<u64>,
}

impl GroupMember {
    /// Tells the others that the server is reachable again.
    pub(super) fn announce(&self) {
        self.group.announce(Instant::now());
    }

    /// Ignores the announcements so far.
    pub(super) fn ignore_earlier(&mut self) {
        self.reached.mark_unchanged();
    }

    /// Waits until another member has reached the server. Cancel-safe.
    pub(super) async fn reached(&mut self) {
        if self.reached.changed().await.is_err() {
            // Cannot happen: the group owns the sender.
            std::future::pending().await
        }
    }

    /// The delay before a watch that has ended is resumed: none, unless many end at the same time.
    pub(super) fn resume_delay(&self, now: Instant) -> Duration {
        let members = self.group.inner.reached.receiver_count();
        self.group.inner.resumes.lock().reserve(now, members)
    }

    /// Takes a turn to load a collection, if one is free.
    pub(super) fn try_turn(&self) -> Option<Turn> {
        let permit = self.group.inner.loads.clone().try_acquire_owned();
        permit.ok().map(|permit| Turn {
            _permit: Some(permit),
        })
    }

    /// Waits for a turn to load a collection, in the order of the calls. Cancel-safe.
    pub(super) async fn turn(&self) -> Turn {
        let permit = self.group.inner.loads.clone().acquire_owned().await;
        // The semaphore is never closed.
        Turn { _permit: permit.ok() }
    }
}

/// The right to load a collection, until it is dropped.
pub(super) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test(start_paused = true)]
    async fn an_announcement_reaches_the_members_once_per_recovery() {
        let group = RecoveryGroup::new();
        let (first, mut second) = (group.member(), group.member());
        assert!(second.reached().now_or_never().is_none());

        first.announce();
        assert!(second.reached().now_or_never().is_some());
        first.announce();
        assert!(second.reached().now_or_never().is_none(), "too soon");
        tokio::time::advance(RecoveryGroup::QUIET).await;
        first.announce();
        assert!(second.reached().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn ten_watches_resume_at_once_and_the_others_within_five_seconds() {
        let (mut resumes, now) = (Resumes::default(), Instant::now());
        let delays: Vec<Duration> = (0..200).map(|_| resumes.reserve(now, 200)).collect();
        assert!(delays[..10].iter().all(Duration::is_zero), "{delays:?}");
        assert_eq!(delays[10], Duration::from_millis(25));
        assert!(delays[199] < Resumes::SPREAD, "{:?}", delays[199]);

        // They break again and again.
        let delay = (0..10_000).map(|_| resumes.reserve(now, 200)).max().unwrap();
        assert_eq!(delay, Resumes::SPREAD);
        let later = now + Duration::from_secs(6);
        assert_eq!(resumes.reserve(later, 200), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_group_resumes_at_once() {
        let (mut resumes, now) = (Resumes::default(), Instant::now());
        for members in [0, 1, 10] {
            for _ in 0..members {
                assert_eq!(
                    resumes.reserve(now + Duration::from_secs(60), members),
                    Duration::ZERO
                );
            }
            resumes.next = None;
        }
        assert_eq!(resumes.reserve(now, usize::MAX), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_breaks_every_second_resumes_at_once() {
        let (mut resumes, start) = (Resumes::default(), Instant::now());
        for second in 0..1000 {
            let now = start + Duration::from_secs(second);
            assert_eq!(resumes.reserve(now, 1), Duration::ZERO, "{second}");
        }
    }

    #[tokio::test]
    async fn two_members_load_at_a_time() {
        let group = RecoveryGroup::new();
        let member = group.member();
        let (one, _two) = (member.try_turn().unwrap(), member.try_turn().unwrap());
        assert!(member.try_turn().is_none());

        drop(one);

        assert!(member.try_turn().is_some());
    }
}
