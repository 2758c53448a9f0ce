//! Everything that may go wrong without the server telling an untruth about a version.

use std::time::Duration;

use kube_testserver::{ApiError, Fault, Poison, RequestMatcher, Which};

use super::model::{Dice, Model};

/// Makes one random piece of trouble; says whether somebody may have to wait long to notice it.
///
/// `repeats`: a keyed queue, which is out of order by design, cannot tell that the coming of an object that is gone is
/// told again, as client-go's cannot.
pub fn strike(model: &mut Model, dice: &mut Dice, repeats: bool) -> bool {
    let server = model.server.clone();
    let mut slow = false;
    let what = match dice.below(16) {
        0 => format!("break {} watches", server.break_watches()),
        1 => format!("close {} watches", server.close_watches()),
        2 => format!("cut {} watches", server.cut_watches()),
        3..=4 => {
            server.compact();
            "compact".to_owned()
        }
        5 => {
            let changes = dice.below(6) as usize + 1;
            server.set_watch_window("pods", changes);
            format!("window of {changes}")
        }
        6 => {
            let count = dice.below(20) + 1;
            model.skip(count);
            format!("skipped {count}")
        }
        7..=8 => poison(model, dice),
        _ => {
            let (fault, is_slow) = fault(dice, repeats);
            slow = is_slow;
            let on = on(dice);
            let text = format!("fault {on:?} {fault:?}");
            server.fault(on, fault);
            // A fault on watches is felt when the next one begins.
            if dice.one_in(2) {
                server.break_watches();
            }
            text
        }
    };
    model.journal.push(what);
    slow
}

fn on(dice: &mut Dice) -> RequestMatcher {
    let on = match dice.below(5) {
        0 => RequestMatcher::list("pods"),
        1 => RequestMatcher::list("pods").continued(),
        2 => RequestMatcher::watch_list("pods"),
        3 => RequestMatcher::plain_watch("pods"),
        _ => RequestMatcher::resource("pods"),
    };
    on.times(dice.below(4) + 1)
}

fn fault(dice: &mut Dice, repeats: bool) -> (Fault, bool) {
    let events = dice.below(4);
    let bytes = dice.below(3000);
    let fault = match dice.below(23) {
        0 => Fault::refuse(),
        1 => Fault::delay(Duration::from_millis(dice.below(4000))),
        2 => Fault::status(*dice.pick(&[400, 403, 404, 410, 422, 500, 503, 504])),
        3 => Fault::status(429).retry_after(dice.below(3)),
        4 => Fault::error(ApiError::too_large_resource_version(9, 5, 1)),
        5 => Fault::refuse_watch_list(),
        6 => Fault::status(503).text("busy"),
        7 => Fault::default().html("<html>a proxy</html>"),
        8 => Fault::cut(bytes),
        9 => Fault::truncate(bytes),
        10 => Fault::split(vec![1, 7, dice.below(200) as usize + 1]),
        11 => Fault::pause(bytes, Duration::from_secs(dice.below(20))),
        12 => Fault::expire_continue(),
        13 => Fault::close_after_events(events),
        14 => Fault::break_after_events(events),
        15 => Fault::error_event_after(events, ApiError::expired("too old resource version")),
        16 => Fault::error_event_after(events, ApiError::internal("failed on purpose")),
        17 => Fault::error_event_after(events, ApiError::too_many_requests(1)),
        18 => Fault::no_end_marker(),
        19 if repeats => Fault::duplicate_events(Which::Chance(0.5)),
        20 if repeats => Fault::replay_events(Which::Chance(0.3), dice.below(5) as usize + 1),
        21 => Fault::bookmark_version(-i64::try_from(dice.below(9)).unwrap_or_default())
            .and(Fault::ignore_initial_events()),
        _ => return (Fault::stall(bytes), true),
    };
    (fault, false)
}

fn poison(model: &mut Model, dice: &mut Dice) -> String {
    let poison = match dice.below(5) {
        0 => Poison::WrongType,
        1 => Poison::BadEnum,
        2 => Poison::InvalidUtf8,
        3 => Poison::TooDeep(400),
        _ => Poison::OtherKind("v1".to_owned(), "Node".to_owned()),
    };
    let key = format!(
        "{}/p{}",
        if dice.one_in(3) { "b" } else { "a" },
        dice.below(model.keys())
    );
    if dice.one_in(3) && model.server.cure("pods", &key) {
        return format!("cure {key}");
    }
    let text = format!("poison {key} {poison:?}");
    model.server.poison("pods", &key, poison);
    text
}
