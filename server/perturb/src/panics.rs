//! Collects the panics of a run, also those of tasks that a runtime or a controller catches.

use std::cell::RefCell;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;

thread_local! {
    static CAUGHT: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Collects the panics on this thread from now on, instead of printing them.
pub(crate) fn capture() {
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !note(info) {
                previous(info);
            }
        }));
    });
    CAUGHT.with(|caught| *caught.borrow_mut() = Some(Vec::new()));
}

/// The panics so far, and no more collecting.
pub(crate) fn release() -> Vec<String> {
    CAUGHT.with(|caught| caught.borrow_mut().take().unwrap_or_default())
}

/// Whether the panic belongs to a run.
fn note(info: &PanicHookInfo<'_>) -> bool {
    let payload = info.payload();
    let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(message), _) => (*message).to_owned(),
        (None, Some(message)) => message.clone(),
        (None, None) => "a panic without a message".to_owned(),
    };
    let text = match info.location() {
        Some(at) => format!("{message} ({}:{})", at.file(), at.line()),
        None => message,
    };
    // A thread that ends has no thread-local state any more.
    let noted = CAUGHT.try_with(|caught| match caught.borrow_mut().as_mut() {
        Some(caught) => {
            caught.push(text);
            true
        }
        None => false,
    });
    noted.unwrap_or(false)
}
