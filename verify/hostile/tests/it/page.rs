//! `docs/evidence/security.md` holds the table of scenarios and the default of every limit. `UPDATE_DOCS=1 cargo test -p
//! kube-hostile --test it page` writes both.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use kube_informers::reflector::{BackoffConfig, Deadlines, LoadLimits, ReflectorConfig};

fn page() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/evidence/security.md")
        .to_string_lossy()
        .into_owned()
}

/// The tests run side by side, and each rewrites the page.
static PAGE: Mutex<()> = Mutex::new(());

/// Compares the part of the page between two markers.
fn check(marker: &str, expected: &str) {
    let _page = PAGE.lock();
    let path = page();
    let text = fs::read_to_string(&path).unwrap();
    let (begin, end) = (
        format!("<!-- {marker} -->\n"),
        format!("<!-- end of {marker} -->\n"),
    );
    let (before, rest) = text
        .split_once(&begin)
        .unwrap_or_else(|| panic!("{begin} is missing"));
    let (found, after) = rest
        .split_once(&end)
        .unwrap_or_else(|| panic!("{end} is missing"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{begin}\n{expected}\n{end}{after}")).unwrap();
        return;
    }
    assert_eq!(
        found.trim(),
        expected.trim(),
        "docs/evidence/security.md is not current; run `UPDATE_DOCS=1 cargo test -p kube-hostile --test it page`"
    );
}

fn limits() -> String {
    let (deadlines, limits, backoff) = (
        Deadlines::default(),
        LoadLimits::default(),
        BackoffConfig::default(),
    );
    let config = ReflectorConfig::default();
    let off = |is_off: bool| if is_off { "off" } else { "on" };
    let mut table = "| Limit | Setting | Default | When it is reached |\n|---|---|---|---|\n".to_owned();
    let retried =
        "the fetch is discarded and retried after at least a minute; counted in `errors[\"limit\"]`";
    let deadline = "the request is ended and retried with back-off; counted in `errors[\"deadline\"]`";
    let rows = [
        (
            "one object",
            "`SourceOptions::max_object_size`",
            "32 MiB".to_owned(),
            "the object is quarantined; counted in `unreadable`",
        ),
        (
            "bytes of a fetch that lead to no object",
            "`ReflectorConfig::limits.wasted_bytes`",
            format!("{} MiB", limits.wasted_bytes >> 20),
            retried,
        ),
        (
            "objects of a collection",
            "`ReflectorConfig::limits.objects`",
            off(limits.objects.is_none()).to_owned(),
            retried,
        ),
        (
            "bytes of a collection",
            "`ReflectorConfig::limits.bytes`",
            off(limits.bytes.is_none()).to_owned(),
            retried,
        ),
        (
            "throughput of a fetch, averaged over a minute",
            "`ReflectorConfig::deadlines.min_throughput`",
            format!("{} bytes/s", deadlines.min_throughput),
            "the fetch is discarded and retried with back-off; counted in `errors[\"limit\"]`",
        ),
        (
            "duration of a fetch",
            "`ReflectorConfig::deadlines.list_total`",
            format!("{} s", deadlines.list_total.as_secs()),
            "the fetch is discarded and retried with back-off; counted in `errors[\"limit\"]`",
        ),
        (
            "start of the response to a list",
            "`ReflectorConfig::deadlines.list_headers`",
            format!("{} s", deadlines.list_headers.as_secs()),
            deadline,
        ),
        (
            "silence of a list",
            "`ReflectorConfig::deadlines.list_idle`",
            format!("{} s", deadlines.list_idle.as_secs()),
            deadline,
        ),
        (
            "silence of a watch",
            "`ReflectorConfig::deadlines.watch_idle`",
            format!("{} s", deadlines.watch_idle.as_secs()),
            "the watch is resumed at the last version; counted in `errors[\"deadline\"]`",
        ),
        (
            "silence of a watch before its first bookmark",
            "`ReflectorConfig::deadlines.first_bookmark`",
            format!("{} s", deadlines.first_bookmark.as_secs()),
            "the watch is resumed at the last version; counted in `errors[\"deadline\"]`",
        ),
        (
            "establishing a connection",
            "`SourceOptions::connect_timeout`",
            "5 s".to_owned(),
            "the request is ended and retried; counted in `errors[\"transport\"]`",
        ),
        (
            "pages of a list",
            "`ReflectorConfig::max_pages`",
            config.max_pages.to_string(),
            "the list is abandoned and retried with back-off; counted in `endless_lists`",
        ),
        (
            "requests of one watch",
            "none",
            "5 at once, then 24 per minute".to_owned(),
            "the next request waits; pages of a list that makes progress are not counted",
        ),
        (
            "delay after a failure to connect",
            "`ReflectorConfig::max_unreachable_delay`",
            format!("{} s", config.max_unreachable_delay.as_secs()),
            "–",
        ),
        (
            "delay after a 404",
            "`ReflectorConfig::max_not_found_delay`",
            format!("{} s", config.max_not_found_delay.as_secs()),
            "–",
        ),
        (
            "period of the audit of a cache",
            "`ReflectorConfig::audit.period`",
            config.audit.period.map_or("off".to_owned(), |period| {
                format!("{} h", period.as_secs() / 3600)
            }),
            "differences are reported and repaired by a list",
        ),
        (
            "objects in one page of an audit, and pages",
            "`ReflectorConfig::audit.page_size`, `page_interval`",
            format!(
                "{}, one per {} s",
                config.audit.page_size,
                config.audit.page_interval.as_secs()
            ),
            "–",
        ),
        (
            "end marker of a watch-list",
            "`ReflectorConfig::deadlines.end_marker`, `end_marker_quiet`",
            format!(
                "{} s, {} s",
                deadlines.end_marker.as_secs(),
                deadlines.end_marker_quiet.as_secs()
            ),
            "the collection is listed instead",
        ),
        (
            "delay after repeated failures",
            "`ReflectorConfig::backoff`",
            format!(
                "{} ms to {} s",
                backoff.initial.as_millis(),
                backoff.max.as_secs()
            ),
            "–",
        ),
        (
            "delay that a server can request",
            "none",
            "300 s".to_owned(),
            "a longer delay is shortened",
        ),
        (
            "body of an error response",
            "none",
            "64 KiB".to_owned(),
            "the rest is not read",
        ),
        (
            "events waiting for one handler",
            "`HandlerOptions::backlog`",
            "off".to_owned(),
            "with `CoalesceByKey` bounded by the number of live objects; visible as `HandlerStats`",
        ),
        (
            "call of a handler during shutdown",
            "none",
            "100 ms".to_owned(),
            "the handler is left behind and named in the `ShutdownReport`",
        ),
        (
            "other user code during shutdown",
            "none",
            "2 s".to_owned(),
            "the shutdown returns",
        ),
        (
            "log lines about unusable objects, and about panics of one handler",
            "none",
            "10 per minute".to_owned(),
            "the next line has the number of those left out",
        ),
    ];
    for (limit, setting, default, then) in rows {
        table.push_str(&format!("| {limit} | {setting} | {default} | {then} |\n"));
    }
    table
}

#[test]
fn the_page_lists_all_scenarios() {
    check("scenarios", &kube_hostile::table());
}

#[test]
fn the_page_lists_the_defaults_of_all_limits() {
    check("limits", &limits());
}
