//! typed_test.go and event_handler_name_test.go: handlers made of functions, filters, and handler names.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kube_informers::handler::{AsyncEventHandler, EventHandler, Handlers, blocking, filtered};
use kube_informers::{Cause, Event, Object};

fn pod(name: &str) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    Arc::new(pod)
}

fn added(pod: &Arc<Pod>, initial: bool) -> Event<Pod> {
    Event::Added {
        object: pod.clone(),
        initial,
    }
}

fn updated(old: &Arc<Pod>, new: &Arc<Pod>) -> Event<Pod> {
    Event::Updated {
        old: old.clone(),
        new: new.clone(),
        resync: false,
    }
}

fn deleted(pod: &Arc<Pod>) -> Event<Pod> {
    Event::Deleted {
        object: pod.clone(),
        cause: Cause::Observed,
    }
}

/// The calls of a handler's functions.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<String>>>);

impl Calls {
    fn note(&self, call: String) {
        self.0.lock().unwrap().push(call);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn handlers(&self) -> Handlers<Pod> {
        let (add, update, delete) = (self.clone(), self.clone(), self.clone());
        Handlers::default()
            .on_add(move |pod: Arc<Pod>, initial| add.note(format!("add {} {initial}", pod.object_name())))
            .on_update(move |old: Arc<Pod>, new: Arc<Pod>| {
                update.note(format!("update {} {}", old.object_name(), new.object_name()));
            })
            .on_delete(move |pod: Arc<Pod>, cause| {
                delete.note(format!("delete {} {cause:?}", pod.object_name()))
            })
    }
}

/// Upstream: TestTypedResourceEventHandlerFuncs
#[test]
fn set_functions_are_called_and_missing_ones_ignored() {
    let calls = Calls::default();
    let mut handlers = calls.handlers();
    handlers.on_event(added(&pod("a"), false));
    handlers.on_event(updated(&pod("a"), &pod("b")));
    handlers.on_event(deleted(&pod("b")));
    assert_eq!(calls.take(), ["add a false", "update a b", "delete b Observed"]);

    let mut none = Handlers::<Pod>::default();
    none.on_event(added(&pod("a"), false));
    none.on_event(updated(&pod("a"), &pod("b")));
    none.on_event(deleted(&pod("b")));

    let only = calls.clone();
    let mut only_updates = Handlers::<Pod>::default()
        .on_update(move |old, new| only.note(format!("{} {}", old.object_name(), new.object_name())));
    only_updates.on_event(added(&pod("a"), false));
    only_updates.on_event(updated(&pod("a"), &pod("b")));
    only_updates.on_event(deleted(&pod("b")));
    assert_eq!(calls.take(), ["a b"]);
}

/// Upstream: TestTypedResourceEventHandlerDetailedFuncs
#[test]
fn the_initial_flag_is_passed_through() {
    let calls = Calls::default();
    let mut handlers = calls.handlers();

    handlers.on_event(added(&pod("a"), true));
    handlers.on_event(added(&pod("b"), false));

    assert_eq!(calls.take(), ["add a true", "add b false"]);
}

/// Upstream: TestTypedFilteringResourceEventHandler
#[test]
fn crossing_a_filter_is_an_add_or_a_delete() {
    let calls = Calls::default();
    let mut handler = filtered(
        |pod: &Pod| Object::object_name(pod).starts_with("in"),
        calls.handlers(),
    );
    let (within, without) = (pod("in"), pod("out"));
    let mut calls_for = |event| {
        handler.on_event(event);
        calls.take()
    };

    assert_eq!(calls_for(added(&within, true)), ["add in true"]);
    assert!(calls_for(added(&without, true)).is_empty());
    assert_eq!(calls_for(deleted(&within)), ["delete in Observed"]);
    assert!(calls_for(deleted(&without)).is_empty());

    assert_eq!(calls_for(updated(&within, &pod("in-2"))), ["update in in-2"]);
    assert_eq!(calls_for(updated(&without, &within)), ["add in false"]);
    // With the last state that passed. The object still exists, so it left the scope.
    assert_eq!(calls_for(updated(&within, &without)), ["delete in LeftScope"]);
    assert!(calls_for(updated(&without, &pod("out-2"))).is_empty());
}

#[test]
fn a_filter_looks_at_a_resynced_object_once() {
    let looks = Arc::new(Mutex::new(0));
    let counted = looks.clone();
    let calls = Calls::default();
    let mut handler = filtered(
        move |_: &Pod| {
            *counted.lock().unwrap() += 1;
            true
        },
        calls.handlers(),
    );
    let a = pod("a");

    handler.on_event(Event::Updated {
        old: a.clone(),
        new: a,
        resync: true,
    });

    assert_eq!(calls.take(), ["update a a"]);
    assert_eq!(*looks.lock().unwrap(), 1);
}

/// Upstream marks a missed delete by its type, and the object may be absent. Here the event always carries the object.
///
/// Upstream: TestTypedResourceEventHandlerAdapter
#[test]
fn a_missed_delete_carries_the_last_known_object_and_says_so() {
    let calls = Calls::default();
    let mut handlers = calls.handlers();
    let last = pod("pod");

    handlers.on_event(deleted(&last));
    handlers.on_event(Event::Deleted {
        object: last.clone(),
        cause: Cause::Missed,
    });

    assert_eq!(calls.take(), ["delete pod Observed", "delete pod Missed"]);
    let missed = Event::Deleted {
        object: last,
        cause: Cause::Missed,
    };
    assert_eq!(missed.key().to_string(), "default/pod");
}

struct MyHandler;

impl EventHandler<Pod> for MyHandler {
    fn on_event(&mut self, _: Event<Pod>) {}
}

fn on_add(_: Arc<Pod>, _: bool) {}

/// Closures are named after the enclosing function, functions by their own name, handlers by their type.
///
/// Upstream: TestNameForHandler
#[test]
fn handlers_are_named_after_their_code() {
    let here = "it::parity::handlers::handlers_are_named_after_their_code";
    let handlers = Handlers::<Pod>::default;
    let elsewhere = || Calls::default().handlers();

    assert_eq!(handlers().on_add(|_, _| ()).name(), here);
    assert_eq!(handlers().on_update(|_, _| ()).name(), here);
    assert_eq!(handlers().on_delete(|_, _| ()).name(), here);
    let all = handlers()
        .on_add(|_, _| ())
        .on_update(|_, _| ())
        .on_delete(|_, _| ());
    assert_eq!(all.name(), here);
    assert_eq!(elsewhere().name(), "it::parity::handlers::Calls::handlers");

    let mixed = handlers().on_add(on_add).on_delete(|_, _| ());
    assert_eq!(mixed.name(), format!("it::parity::handlers::on_add+{here}"));
    assert_eq!(
        EventHandler::<Pod>::name(&MyHandler),
        "it::parity::handlers::MyHandler"
    );
    assert!(
        handlers()
            .name()
            .starts_with("kube_informers::handler::funcs::Handlers<")
    );

    // Adapters do not rename a handler.
    let wrapped = filtered(|_: &Pod| true, blocking(MyHandler));
    assert_eq!(
        EventHandler::<Pod>::name(&wrapped),
        "it::parity::handlers::MyHandler"
    );
    let awaited = |_: Event<Pod>| async {};
    assert_eq!(AsyncEventHandler::<Pod>::name(&awaited), here);
}
