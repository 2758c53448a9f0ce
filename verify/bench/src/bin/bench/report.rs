//! Tables of costs, comparisons and targets.

use std::fmt::Write;

use kube_informers_bench::kind::Kind;

use crate::book::Book;
use crate::kinds;
use crate::opponent::Peer;

/// The better direction of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Less,
    More,
}

/// The target of a figure.
#[derive(Clone, Copy, Debug)]
enum Target {
    None,
    /// Our figure relative to client-go's default.
    ClientGo(f64),
    /// An absolute value.
    AtMost(f64),
}

struct Figure {
    id: &'static str,
    name: &'static str,
    decimals: usize,
    better: Better,
    target: Target,
}

const fn figure(id: &'static str, name: &'static str, decimals: usize) -> Figure {
    Figure {
        id,
        name,
        decimals,
        better: Better::Less,
        target: Target::None,
    }
}

const fn rate(id: &'static str, name: &'static str) -> Figure {
    Figure {
        better: Better::More,
        ..figure(id, name, 0)
    }
}

impl Figure {
    const fn target(self, target: Target) -> Self {
        Self { target, ..self }
    }
}

/// The real server takes most of the time of a list on the same machine.
const CPU_REAL: Target = Target::ClientGo(0.75);
const CPU_REPLAY: Target = Target::ClientGo(0.45);
const CPU_OF_EVENT: Target = Target::ClientGo(0.8);
const WALL: Target = Target::ClientGo(1.0);
const MEMORY: Target = Target::ClientGo(1.35);
const RATE: Target = Target::ClientGo(1.5);
const READ: Target = Target::ClientGo(1.0);

struct Section {
    title: &'static str,
    text: &'static str,
    figures: &'static [Figure],
}

const SECTIONS: &[Section] = &[
    Section {
        title: "Initial list",
        text: "From the start of the process until the handler has received everything; memory 2 s later. The real server speaks TLS; the \
               replay server sends the same bytes without, as fast as the client reads them. With \"kept\", every peer keeps managedFields; \
               else ours cuts them before decoding, client-go drops them by a transform, kube-runtime by `modify`.",
        figures: &[
            figure("real-dropped-cpu", "real server: CPU, s", 2).target(CPU_REAL),
            figure("real-dropped-wall", "real server: wall, s", 2).target(WALL),
            figure("real-dropped-steady", "real server: memory, MB", 0).target(MEMORY),
            figure("replay-dropped-cpu", "replayed: CPU, s", 2).target(CPU_REPLAY),
            figure("replay-dropped-wall", "replayed: wall, s", 2).target(WALL),
            figure("replay-dropped-steady", "replayed: memory, MB", 0).target(MEMORY),
            figure("real-kept-cpu", "kept, real server: CPU, s", 2),
            figure("real-kept-wall", "kept, real server: wall, s", 2),
            figure("real-kept-peak", "kept, real server: peak memory, MB", 0),
            figure("replay-kept-cpu", "kept, replayed: CPU, s", 2),
            figure("replay-kept-wall", "kept, replayed: wall, s", 2),
            figure("replay-kept-peak", "kept, replayed: peak memory, MB", 0),
        ],
    },
    Section {
        title: "Updates to a handler",
        text: "Replayed as fast as they are read; the same while another thread lists everything in a loop; replayed at 2,000 a second, from \
               the moment before the bytes are written to the handler; and written through the real server at 250 a second, from the moment \
               before the request is sent, which is mostly the server and which all peers watch at the same time. Last, a relist during \
               2,000 updates a second: the version expires, and a tenth of the objects has changed in between.",
        figures: &[
            rate("storm-rate", "events/s").target(RATE),
            figure("storm-cpu", "CPU per event, µs", 1),
            rate("listed-rate", "listing: events/s"),
            rate("listed-lists", "listing: lists/s"),
            figure("paced-p50", "2,000/s: delay, median, µs", 0),
            figure("paced-p99", "2,000/s: delay, 99 %, µs", 0),
            figure("paced-cpu", "2,000/s: CPU per event, µs", 1).target(CPU_OF_EVENT),
            figure("real-updates-p50", "real server: delay, median, ms", 2).target(WALL),
            figure("real-updates-p99", "real server: delay, 99 %, ms", 2).target(WALL),
            figure("real-updates-cpu", "real server: CPU per event, µs", 0),
            figure("relist-ratio", "relist: peak memory / before", 2).target(Target::AtMost(1.15)),
            figure("relist-peak", "relist: peak memory, MB", 0),
        ],
    },
    Section {
        title: "Reading the cache",
        text: "A key is built before: client-go's string, our `ObjectKey`, kube-runtime's `ObjectRef`. By namespace and name, \
               client-go's lister joins them for each lookup. A view is the store at one moment, taken once for 1,000 lookups; the others \
               have none, and are compared by their get. kube-runtime's store has no indexes. An index lookup returns 20 pods; a list is iterated once.",
        figures: &[
            figure("get", "get by key, ns", 0).target(READ),
            figure("view", "get by key in a view, ns", 0).target(READ),
            figure("read", "get by key and read its name, ns", 0),
            figure("by-name", "get by namespace and name, ns", 0).target(READ),
            figure("index", "index lookup, ns", 0),
            figure("list", "list of everything, µs", 0),
        ],
    },
    Section {
        title: "A controller",
        text: "10,000 ConfigMaps on the embedded server, 1,000 changes a second, 8 workers. Each change causes one write of another object: \
               from the moment before the change to the end of that write. client-go has no controller of its own.",
        figures: &[
            figure("controller-first", "start to the end of the first pass, s", 2),
            figure("controller-p50", "change to finished work, median, ms", 2),
            figure("controller-p99", "change to finished work, 99 %, ms", 2),
            figure("controller-requests", "requests per change", 3),
            figure("controller-cpu", "CPU per change, µs", 0),
            figure("controller-memory", "memory, MB", 0),
        ],
    },
];

/// The targets of packed objects, relative to client-go and to kube-runtime.
struct PackedFigure {
    figure: Figure,
    client_go: Option<f64>,
    kube_runtime: Option<f64>,
}

const fn packed(figure: Figure, client_go: Option<f64>, kube_runtime: Option<f64>) -> PackedFigure {
    PackedFigure {
        figure,
        client_go,
        kube_runtime,
    }
}

const PACKED_FIGURES: &[PackedFigure] = &[
    packed(
        figure("packed-real-cpu", "real server: CPU to synced, s", 2),
        Some(0.45),
        Some(0.3),
    ),
    packed(
        figure("packed-real-wall", "real server: wall to synced, s", 2),
        Some(0.8),
        None,
    ),
    packed(
        figure("packed-real-steady", "real server: memory, MB", 0),
        Some(0.25),
        Some(0.15),
    ),
    packed(
        figure("packed-replay-cpu", "replayed: CPU to synced, s", 2),
        Some(0.25),
        Some(0.3),
    ),
    packed(
        figure("packed-replay-wall", "replayed: wall to synced, s", 2),
        None,
        None,
    ),
    packed(
        figure("packed-replay-steady", "replayed: memory, MB", 0),
        Some(0.25),
        Some(0.15),
    ),
    packed(
        figure("packed-storm-cpu", "CPU per event, unpaced, µs", 1),
        Some(0.4),
        Some(0.3),
    ),
    packed(rate("packed-storm-rate", "events/s, unpaced"), Some(3.0), None),
    packed(
        figure("packed-paced-cpu", "CPU per event at 2,000/s, µs", 1),
        None,
        None,
    ),
    packed(
        figure("packed-paced-p99", "delay at 2,000/s, 99 %, µs", 0),
        None,
        None,
    ),
    packed(
        figure("packed-node", "get by key and read one field, ns", 0),
        None,
        None,
    ),
    packed(
        figure("packed-whole", "get by key and the whole object, ns", 0),
        None,
        None,
    ),
];

/// The table of the forms of a cache.
fn forms(out: &mut String, book: &Book) {
    if book.median("packed-replay-cpu", Peer::Packed).is_none() {
        return;
    }
    out.push_str(
        "### The forms of a cache\n\nmanagedFields dropped. The handler computes the key of every object and reads one annotation. \
         The last columns compare *packed* (`Lazy<Pod>`, `Validate::OnAccess`).\n\n| |",
    );
    for peer in Peer::FORMS {
        let _ = write!(out, " {} |", peer.form_name());
    }
    out.push_str(" packed / client-go | packed / kube-runtime | target |\n|---|");
    out.push_str(&"---:|".repeat(Peer::FORMS.len() + 2));
    out.push_str("---|\n");
    for row in PACKED_FIGURES {
        let figure = &row.figure;
        let packed = book.median(figure.id, Peer::Packed);
        if packed.is_none() {
            continue;
        }
        let _ = write!(out, "| {} |", figure.name);
        for peer in Peer::FORMS {
            cell(out, figure, book.median(figure.id, peer));
        }
        let ratio = |peer| Some(packed? / book.median(figure.id, peer).filter(|theirs| *theirs > 0.0)?);
        let mut verdicts = Vec::new();
        for (peer, target) in [
            (Peer::ClientGo, row.client_go),
            (Peer::KubeRuntime, row.kube_runtime),
        ] {
            let _ = match ratio(peer) {
                Some(ratio) => write!(out, " {ratio:.2} |"),
                None => write!(out, " |"),
            };
            if let (Some(ratio), Some(target)) = (ratio(peer), target) {
                verdicts.push(judge(figure.better, ratio, target, &format!("× {}", peer.name())));
            }
        }
        let _ = writeln!(out, " {} |", verdicts.join("; "));
    }
    out.push('\n');
}

/// The table of other kinds than pods.
fn kinds(out: &mut String, book: &Book) {
    let measured: Vec<Kind> = (Kind::OTHERS.into_iter())
        .filter(|kind| book.median(kinds::figures(*kind).cpu, Peer::Ours).is_some())
        .collect();
    if measured.is_empty() {
        return;
    }
    out.push_str("### Initial lists of other kinds from a real server\n\nmanagedFields dropped.\n\n| |");
    for peer in kinds::PEERS {
        let _ = write!(out, " {} |", peer.form_name());
    }
    out.push_str(" typed / client-go | packed / client-go |\n|---|");
    out.push_str(&"---:|".repeat(kinds::PEERS.len() + 2));
    out.push('\n');
    for kind in measured {
        let ids = kinds::figures(kind);
        for row in [
            figure(ids.cpu, "CPU, s", 2),
            figure(ids.wall, "wall, s", 2),
            figure(ids.steady, "memory, MB", 0),
        ] {
            let _ = write!(out, "| {kind}: {} |", row.name);
            for peer in kinds::PEERS {
                cell(out, &row, book.median(row.id, peer));
            }
            for peer in [Peer::Ours, Peer::Packed] {
                let theirs = book.median(row.id, Peer::ClientGo).filter(|theirs| *theirs > 0.0);
                let _ = match book.median(row.id, peer).zip(theirs) {
                    Some((ours, theirs)) => write!(out, " {:.2} |", ours / theirs),
                    None => write!(out, " |"),
                };
            }
            out.push('\n');
        }
    }
    out.push('\n');
}

/// All tables, as Markdown.
#[must_use]
pub fn tables(book: &Book) -> String {
    let mut out = String::new();
    forms(&mut out, book);
    kinds(&mut out, book);
    for section in SECTIONS {
        let measured = section
            .figures
            .iter()
            .any(|figure| book.median(figure.id, Peer::Ours).is_some());
        if measured {
            let _ = writeln!(out, "### {}\n", section.title);
            if !section.text.is_empty() {
                let _ = writeln!(out, "{}\n", section.text);
            }
            table(&mut out, section.figures, book);
            out.push('\n');
        }
    }
    out
}

fn is_another_library(peer: Peer) -> bool {
    matches!(peer, Peer::ClientGo | Peer::ClientGoJson | Peer::KubeRuntime)
}

fn table(out: &mut String, figures: &[Figure], book: &Book) {
    // A peer without any of these figures has no column.
    let measured: Vec<Peer> = (Peer::ALL.into_iter())
        .filter(|peer| {
            figures
                .iter()
                .any(|figure| book.median(figure.id, *peer).is_some())
        })
        .collect();
    let others = measured.iter().filter(|peer| is_another_library(**peer));
    out.push_str("| |");
    for peer in &measured {
        let _ = write!(out, " {} |", peer.name());
    }
    for peer in others.clone() {
        let _ = write!(out, " / {} |", peer.name());
    }
    out.push_str(" target |\n|---|");
    out.push_str(&"---:|".repeat(measured.len() + others.clone().count()));
    out.push_str("---|\n");
    for figure in figures {
        if book.median(figure.id, Peer::Ours).is_none() {
            continue;
        }
        let _ = write!(out, "| {} |", figure.name);
        for peer in &measured {
            cell(out, figure, book.median(figure.id, *peer));
        }
        for peer in others.clone() {
            let _ = match ratio(book, figure, *peer) {
                Some(ratio) => write!(out, " {ratio:.2} |"),
                None => write!(out, " |"),
            };
        }
        let _ = writeln!(out, " {} |", verdict(book, figure));
    }
}

fn cell(out: &mut String, figure: &Figure, value: Option<f64>) {
    let _ = match value {
        Some(value) => write!(out, " {} |", number(value, figure.decimals)),
        None => write!(out, " n/a |"),
    };
}

fn ratio(book: &Book, figure: &Figure, peer: Peer) -> Option<f64> {
    let theirs = book.median(figure.id, peer).filter(|theirs| *theirs > 0.0)?;
    Some(book.median(figure.id, Peer::Ours)? / theirs)
}

fn judge(better: Better, value: f64, target: f64, of: &str) -> String {
    let (sign, met, by) = match better {
        Better::Less => ("≤", value <= target, value / target - 1.0),
        Better::More => ("≥", value >= target, 1.0 - value / target),
    };
    match met {
        true => format!("{sign} {target}{of}: met"),
        false => format!("{sign} {target}{of}: missed by {:.0} %", by * 100.0),
    }
}

fn verdict(book: &Book, figure: &Figure) -> String {
    let judge = |value, target, of: &str| judge(figure.better, value, target, of);
    match figure.target {
        Target::None => String::new(),
        Target::AtMost(target) => match book.median(figure.id, Peer::Ours) {
            Some(value) => judge(value, target, ""),
            None => String::new(),
        },
        Target::ClientGo(target) => match ratio(book, figure, Peer::ClientGo) {
            Some(ratio) => judge(ratio, target, "× client-go"),
            None => String::new(),
        },
    }
}

/// A number with thousands separators.
fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text
        .split_once('.')
        .map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && grouped != "-" {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match rest {
        Some(rest) => format!("{grouped}.{rest}"),
        None => grouped,
    }
}

/// The command in the markers around a generated section of a document.
pub const EVERYTHING: &str = "verify/bench/run";
/// The same for the part `packed`.
pub const PACKED: &str = "verify/bench/run --only packed";
/// The same for the part `kinds`.
pub const KINDS: &str = "verify/bench/run --only kinds";

/// Replaces a generated section of a document.
///
/// # Errors
///
/// The document has no markers.
pub fn insert(document: &str, command: &str, section: &str) -> Result<String, String> {
    let begin = format!("<!-- begin: written by {command} -->\n");
    let end = format!("<!-- end: written by {command} -->\n");
    let place = document
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) =
        place.ok_or_else(|| format!("the document lacks the lines {begin:?} and {end:?}"))?;
    Ok(format!("{before}{begin}\n{section}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(ours: f64, client_go: f64, kube_runtime: f64, id: &'static str) -> Book {
        let mut book = Book::default();
        book.add(id, Peer::Ours, ours);
        book.add(id, Peer::ClientGo, client_go);
        book.add(id, Peer::KubeRuntime, kube_runtime);
        book
    }

    #[test]
    fn targets_are_met_or_missed_by_a_percentage() {
        let text = tables(&book(0.9, 1.0, 2.0, "real-dropped-cpu"));
        assert!(text.contains("≤ 0.75× client-go: missed by 20 % |"), "{text}");
        assert!(
            text.contains("| real server: CPU, s | 0.90 | 1.00 | 2.00 | 0.90 | 0.45 |"),
            "{text}"
        );

        let text = tables(&book(30_000.0, 20_000.0, 10_000.0, "storm-rate"));
        assert!(text.contains("≥ 1.5× client-go: met |"), "{text}");
        assert!(text.contains("| events/s | 30,000 | 20,000 |"), "{text}");
    }

    #[test]
    fn missing_measurements_are_not_shown() {
        assert_eq!(tables(&Book::default()), "");

        let text = tables(&book(1.0, 2.0, 4.0, "storm-cpu"));
        assert!(!text.contains("events/s") && !text.contains("jemalloc"), "{text}");
    }

    #[test]
    fn another_allocator_is_a_column_and_not_another_library() {
        let mut book = book(1.0, 2.0, 4.0, "storm-cpu");
        book.add("storm-cpu", Peer::OursJemalloc, 0.5);

        let text = tables(&book);

        assert!(
            text.contains("| CPU per event, µs | 1.0 | 0.5 | 2.0 | 4.0 | 0.50 | 0.25 |"),
            "{text}"
        );
    }

    #[test]
    fn packed_objects_are_compared_with_both_libraries() {
        let mut book = Book::default();
        for (peer, cpu) in [
            (Peer::Packed, 0.5),
            (Peer::ClientGo, 1.0),
            (Peer::KubeRuntime, 4.0),
        ] {
            book.add("packed-replay-cpu", peer, cpu);
        }

        let text = tables(&book);

        let row =
            "| replayed: CPU to synced, s | 1.00 | 4.00 | n/a | 0.50 | n/a | n/a | n/a | n/a | 0.50 | 0.12 |";
        assert!(text.contains(row), "{text}");
        let verdict = "≤ 0.25× client-go: missed by 100 %; ≤ 0.3× kube-runtime: met |";
        assert!(text.contains(verdict), "{text}");
    }

    #[test]
    fn other_kinds_are_compared_with_client_go() {
        let mut book = book(1.0, 2.0, 4.0, "secrets-cpu");
        book.add("secrets-cpu", Peer::Packed, 0.5);

        let text = tables(&book);

        let row = "| secrets: CPU, s | 2.00 | 4.00 | 1.00 | 0.50 | 0.50 | 0.25 |";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn only_the_generated_section_is_replaced() {
        let (begin, end) = ("<!-- begin: written by x -->\n", "<!-- end: written by x -->\n");
        let document = format!("before\n{begin}old\n{end}after\n");

        let once = insert(&document, "x", "new").unwrap();

        assert_eq!(once, format!("before\n{begin}\nnew\n{end}after\n"));
        assert_eq!(insert(&once, "x", "new").unwrap(), once);
        assert!(insert("no marks", "x", "new").is_err());
    }
}
