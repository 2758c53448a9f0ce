//! Random faults of a server that still reports correct versions.

use std::time::Duration;

use kube_testserver::{ApiError, Fault, Poison, RequestMatcher, Which};

use super::model::{Model, Rng};

/// Injects one random fault. Returns whether it may be noticed only after a timeout.
pub fn inject(model: &mut Model, rng: &mut Rng) -> bool {
    let server = model.server.clone();
    let mut slow = false;
    let what = match rng.below(16) {
        0 => format!("break {} watches", server.break_watches()),
        1 => format!("close {} watches", server.close_watches()),
        2 => format!("cut {} watches", server.cut_watches()),
        3..=4 => {
            server.compact();
            "compact".to_owned()
        }
        5 => {
            let changes = rng.below(6) as usize + 1;
            server.set_watch_window("pods", changes);
            format!("window of {changes}")
        }
        6 => {
            let count = rng.below(20) + 1;
            model.skip(count);
            format!("skipped {count}")
        }
        7..=8 => poison(model, rng),
        _ => {
            let (fault, is_slow) = fault(rng);
            slow = is_slow;
            let on = on(rng);
            let text = format!("fault {on:?} {fault:?}");
            server.fault(on, fault);
            // A fault on watches takes effect when the next watch starts.
            if rng.one_in(2) {
                server.break_watches();
            }
            text
        }
    };
    model.journal.push(what);
    slow
}

fn on(rng: &mut Rng) -> RequestMatcher {
    let on = match rng.below(5) {
        0 => RequestMatcher::list("pods"),
        1 => RequestMatcher::list("pods").continued(),
        2 => RequestMatcher::watch_list("pods"),
        3 => RequestMatcher::plain_watch("pods"),
        _ => RequestMatcher::resource("pods"),
    };
    on.times(rng.below(4) + 1)
}

fn fault(rng: &mut Rng) -> (Fault, bool) {
    let events = rng.below(4);
    let bytes = rng.below(3000);
    let fault = match rng.below(23) {
        0 => Fault::refuse(),
        1 => Fault::delay(Duration::from_millis(rng.below(4000))),
        2 => Fault::status(*rng.pick(&[400, 403, 404, 410, 422, 500, 503, 504])),
        3 => Fault::status(429).retry_after(rng.below(3)),
        4 => Fault::error(ApiError::too_large_resource_version(9, 5, 1)),
        5 => Fault::refuse_watch_list(),
        6 => Fault::status(503).text("busy"),
        7 => Fault::default().html("<html>a proxy</html>"),
        8 => Fault::cut(bytes),
        9 => Fault::truncate(bytes),
        10 => Fault::split(vec![1, 7, rng.below(200) as usize + 1]),
        11 => Fault::pause(bytes, Duration::from_secs(rng.below(20))),
        12 => Fault::expire_continue(),
        13 => Fault::close_after_events(events),
        14 => Fault::break_after_events(events),
        15 => Fault::error_event_after(events, ApiError::expired("too old resource version")),
        16 => Fault::error_event_after(events, ApiError::internal("failed on purpose")),
        17 => Fault::error_event_after(events, ApiError::too_many_requests(1)),
        18 => Fault::no_end_marker(),
        19 => Fault::duplicate_events(Which::Chance(0.5)),
        20 => Fault::replay_events(Which::Chance(0.3), rng.below(5) as usize + 1),
        21 => {
            let shift = -i64::try_from(rng.below(9)).unwrap_or_default();
            // The version of a cache without changes is that of the last bookmark, and a watch keeps its faults until it ends.
            return (
                Fault::bookmark_version(shift).and(Fault::ignore_initial_events()),
                true,
            );
        }
        _ => return (Fault::stall(bytes), true),
    };
    (fault, false)
}

fn poison(model: &mut Model, rng: &mut Rng) -> String {
    let poison = match rng.below(5) {
        0 => Poison::WrongType,
        1 => Poison::BadEnum,
        2 => Poison::InvalidUtf8,
        3 => Poison::TooDeep(400),
        _ => Poison::OtherKind("v1".to_owned(), "Node".to_owned()),
    };
    let key = format!(
        "{}/p{}",
        if rng.one_in(3) { "b" } else { "a" },
        rng.below(model.keys())
    );
    if rng.one_in(3) && model.server.cure("pods", &key) {
        return format!("cure {key}");
    }
    let text = format!("poison {key} {poison:?}");
    model.server.poison("pods", &key, poison);
    text
}
