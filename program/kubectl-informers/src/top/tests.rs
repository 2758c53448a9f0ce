//! The screen at many sizes and in every state, and the effects of keys.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::Timestamp;
use kube_informers::reflector::ReflectorState;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tokio::time::Instant;

use super::{Model, Outcome, draw};
use crate::board::Board;
use crate::board::fixtures::{added, board, deleted, initial, item, kinds, updated, view};
use crate::objects::kinds::Kind;
use crate::session::observe::{Health, InformerView, Note, NoteText, Progress};

fn model() -> Model {
    Model::new(board(), "test cluster", true, Instant::now())
}

/// Pods and nodes synced, some changes, a few seconds.
async fn busy() -> Model {
    let mut model = model();
    let [pods, nodes] = kinds();
    for second in 0..5u64 {
        let mut watched = view(&pods);
        watched.events = second * 4;
        model.tick(vec![watched, view(&nodes)], Instant::now());
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let now = Instant::now();
    model.apply(initial("pods", "shop", "old-timer"), now);
    model.apply(added("pods", "shop", "cart"), now);
    model.apply(updated("pods", "shop", "cart", &["/status/phase"]), now);
    model.apply(
        updated("nodes", "", "node-1", &["/status/conditions/0/lastHeartbeatTime"]),
        now,
    );
    model.apply(deleted("pods", "shop", "cart"), now);
    model
}

/// What is on a screen of this size, line by line.
fn lines(model: &Model, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(model, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    (0..height)
        .map(|y| {
            let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
            line.trim_end().to_owned()
        })
        .collect()
}

fn text(model: &Model, width: u16, height: u16) -> String {
    lines(model, width, height).join("\n")
}

fn press(model: &mut Model, code: KeyCode) -> Outcome {
    model.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn write(model: &mut Model, words: &str) {
    for c in words.chars() {
        press(model, KeyCode::Char(c));
    }
}

#[tokio::test(start_paused = true)]
async fn at_80_by_24_everything_important_is_visible() {
    let shown = lines(&busy().await, 80, 24);

    assert!(shown[0].contains("informers test cluster ● live"), "{}", shown[0]);
    assert!(
        shown[0].contains("2 watches, 246.9 kB"),
        "what it costs: {}",
        shown[0]
    );
    for title in [
        "kind", "state", "objects", "ev/s", "age", "received", "rel", "err", "wait",
    ] {
        assert!(shown[1].contains(title), "{title} is not in {}", shown[1]);
    }
    assert!(
        shown[2].contains("pods") && shown[2].contains("watching") && shown[2].contains("4.0"),
        "{}",
        shown[2]
    );
    assert!(shown[2].contains("████"), "a sparkline: {}", shown[2]);
    let text = shown.join("\n");
    for part in [
        "deleted pods shop/cart",
        "changed pods shop/cart",
        "status.phase  before → after",
        "added   pods shop/cart",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("old-timer"), "what was there is no change");
    assert!(
        shown[23].contains("/ filter") && shown[23].contains("q quit"),
        "{}",
        shown[23]
    );
}

#[tokio::test(start_paused = true)]
async fn a_wide_screen_shows_all_lists_at_once() {
    let text = text(&busy().await, 120, 40);

    for part in [
        "busiest objects",
        "busiest fields",
        " changes ",
        "pods shop/cart",
        "lastHeartbeatTime",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_size_is_too_small_or_too_large() {
    let mut model = busy().await;
    for help in [false, true] {
        model.help = help;
        for width in [0, 1, 2, 9, 19, 20, 21, 33, 60, 109, 110, 250] {
            for height in (0..9).chain([13, 14, 15, 60]) {
                let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
                terminal.draw(|frame| draw(&model, frame)).unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn resizing_redraws_the_screen() {
    let model = busy().await;
    let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
    terminal.draw(|frame| draw(&model, frame)).unwrap();
    terminal.backend_mut().resize(60, 12);
    terminal.draw(|frame| draw(&model, frame)).unwrap();

    assert_eq!(terminal.backend().buffer().area.width, 60);
    assert!(!terminal.backend().to_string().contains("busiest"));
}

#[tokio::test(start_paused = true)]
async fn a_screen_without_contact_says_so_and_for_how_long() {
    let mut model = busy().await;
    let [pods, nodes] = kinds();
    let mut lost = view(&pods);
    lost.health = Health::Disconnected {
        since: Instant::now(),
    };
    tokio::time::advance(Duration::from_secs(75)).await;
    model.tick(vec![lost.clone(), view(&nodes)], Instant::now());
    let head = &lines(&model, 80, 24)[0];
    assert!(
        head.contains("○ disconnected for 00:01:15") && !head.contains("live"),
        "{head}"
    );
    press(&mut model, KeyCode::Char('p'));
    assert!(lines(&model, 80, 24)[0].contains("disconnected"), "paused or not");
    assert!(
        lines(&model, 80, 24)[2].contains("reconnecting"),
        "requested is not accepted"
    );
    press(&mut model, KeyCode::Char('p'));

    lost.health = Health::CatchingUp;
    model.tick(vec![lost, view(&nodes)], Instant::now());
    assert!(lines(&model, 80, 24)[0].contains("◌ catching up"));
}

#[tokio::test(start_paused = true)]
async fn a_narrow_screen_drops_columns_and_cuts_none() {
    let model = busy().await;
    let all = [
        "kind", "state", "objects", "ev/s", "age", "received", "rel", "err", "wait",
    ];
    let mut before = all.len() + 1;
    for width in [120, 80, 70, 60, 50, 40, 30, 22] {
        let shown = lines(&model, width, 24);
        let titles: Vec<&str> = shown[1].split_whitespace().collect();
        assert!(
            titles.iter().all(|title| all.contains(title)),
            "{width}: {titles:?}"
        );
        assert!(titles.starts_with(&["kind", "state"]), "{width}: {titles:?}");
        assert!(titles.len() <= before, "{width}: {titles:?}");
        assert!(shown[0].contains("● live"), "{width}: {}", shown[0]);
        assert!(
            shown[2].contains("pods") && shown[2].contains("watching"),
            "{width}: {}",
            shown[2]
        );
        before = titles.len();
    }
}

#[tokio::test(start_paused = true)]
async fn the_authors_of_changes_are_shown() {
    use crate::objects::who::{Author, Written};
    let mut model = busy().await;
    let mut change = updated("pods", "shop", "web", &["/spec/x"]);
    change.by = Some(vec![Written {
        author: Author {
            manager: "kubectl-edit".into(),
            operation: "Update".into(),
            subresource: None,
            time: None,
        },
        paths: vec!["spec.x".to_owned()],
    }]);
    model.apply(change, Instant::now());
    let text = text(&model, 80, 24);
    assert!(text.contains("changed pods shop/web  by kubectl-edit"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn many_informers_leave_room_and_say_how_many_are_hidden() {
    let kinds: Vec<Arc<Kind>> = (0..30)
        .map(|number| {
            Arc::new(Kind::for_tests(
                "example.com",
                "v1",
                "Thing",
                &format!("things{number:02}"),
            ))
        })
        .collect();
    let mut model = Model::new(
        Board::new(kinds.clone(), Instant::now()),
        "x",
        false,
        Instant::now(),
    );
    model.tick(kinds.iter().map(view).collect(), Instant::now());

    let text = text(&model, 80, 24);
    assert!(text.contains("things00") && text.contains("… 20 more"), "{text}");
    assert!(text.contains("changes"), "{text}");
}

fn changed(change: impl Fn(&mut InformerView)) -> Model {
    let mut model = model();
    let [pods, nodes] = kinds();
    let mut one = view(&pods);
    change(&mut one);
    model.tick(vec![one, view(&nodes)], Instant::now());
    model
}

#[tokio::test(start_paused = true)]
async fn the_initial_list_shows_progress() {
    let listing = |of| {
        changed(move |view| {
            let now = Instant::now();
            view.synced = false;
            view.health = Health::CatchingUp;
            view.state = ReflectorState::Listing {
                since: now,
                items: 2500,
                remaining: None,
            };
            view.progress = Some(Progress {
                items: 2500,
                of,
                elapsed: Duration::from_secs(5),
            });
        })
    };
    let known = text(&listing(Some(10_000)), 80, 24);
    assert!(known.contains("━━╌╌╌╌ 2500/10000"), "{known}");
    assert!(known.contains("◌ syncing"), "{known}");
    let unknown = text(&listing(None), 80, 24);
    assert!(unknown.contains("2500 so far, 500/s"), "{unknown}");
}

#[tokio::test(start_paused = true)]
async fn failures_are_shown_while_they_last_and_kept_in_the_log() {
    let mut model = changed(|view| {
        view.last_error = Some("list of pods failed: connection refused".to_owned());
        view.errors = 3;
    });
    let [pods, nodes] = kinds();
    let note = |text| Note {
        when: Timestamp::UNIX_EPOCH,
        kind: pods.clone(),
        text,
    };
    model.note(
        &note(NoteText::Trouble("list of pods failed".to_owned())),
        Timestamp::UNIX_EPOCH,
    );
    assert!(text(&model, 80, 24).contains("! pods: list of pods failed: connection refused"));

    model.tick(vec![view(&pods), view(&nodes)], Instant::now());
    model.note(
        &note(NoteText::Recovered("watching pods again".to_owned())),
        Timestamp::UNIX_EPOCH,
    );
    let text = text(&model, 80, 24);
    assert!(!text.contains("connection refused"), "{text}");
    assert!(
        text.contains("list of pods failed") && text.contains("watching pods again"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_filter_shows_only_matching_rows() {
    let mut model = busy().await;
    press(&mut model, KeyCode::Char('/'));
    write(&mut model, "node-1 q");
    assert!(
        text(&model, 80, 24).contains("filter node-1 q▏"),
        "q is a letter here, not the end"
    );
    press(&mut model, KeyCode::Backspace);
    press(&mut model, KeyCode::Enter);

    let found = text(&model, 80, 24);
    assert!(
        found.contains("nodes node-1") && !found.contains("shop/cart"),
        "{found}"
    );
    assert!(found.contains("filter of the lists: node-1"), "{found}");
    write(&mut model, "/zzz");
    assert!(text(&model, 80, 24).contains("nothing that changed has these words"));
    press(&mut model, KeyCode::Esc);
    assert!(text(&model, 80, 24).contains("shop/cart"));
}

#[tokio::test(start_paused = true)]
async fn a_filter_matches_fields() {
    let mut model = busy().await;
    write(&mut model, "/lastheartbeat");
    let found = text(&model, 80, 24);
    assert!(
        found.contains("node-1") && !found.contains("shop/cart"),
        "{found}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_paused_screen_does_not_change_and_counts_new_changes() {
    let mut model = busy().await;
    press(&mut model, KeyCode::Char('p'));
    model.apply(added("pods", "shop", "newcomer"), Instant::now());

    let still = text(&model, 80, 24);
    assert!(
        still.contains("paused, 1 new") && !still.contains("newcomer"),
        "{still}"
    );
    press(&mut model, KeyCode::Tab);
    assert!(
        !text(&model, 80, 24).contains("newcomer"),
        "the busiest hold still, too"
    );
    press(&mut model, KeyCode::BackTab);
    press(&mut model, KeyCode::Char(' '));
    assert!(text(&model, 80, 24).contains("newcomer"));
}

#[tokio::test(start_paused = true)]
async fn informers_are_sorted_by_the_selected_column() {
    let mut model = model();
    let [pods, nodes] = kinds();
    let mut large = view(&nodes);
    large.objects = 9000;
    model.tick(vec![view(&pods), large], Instant::now());
    let first = |model: &Model| {
        lines(model, 80, 24)[2]
            .trim_start()
            .split(' ')
            .next()
            .unwrap_or_default()
            .to_owned()
    };

    assert_eq!(first(&model), "pods");
    press(&mut model, KeyCode::Char('s'));
    press(&mut model, KeyCode::Char('s'));
    assert_eq!(first(&model), "nodes");
    assert!(lines(&model, 80, 24)[1].contains("objects↓"));
    for _ in 0..3 {
        press(&mut model, KeyCode::Char('s'));
    }
    assert_eq!(first(&model), "pods", "all the way round");
}

#[tokio::test(start_paused = true)]
async fn lists_are_switched_and_scrolled() {
    let mut model = busy().await;
    press(&mut model, KeyCode::Tab);
    assert!(text(&model, 80, 24).contains("busiest objects"));
    press(&mut model, KeyCode::Char('3'));
    assert!(text(&model, 80, 24).contains("busiest fields"));
    press(&mut model, KeyCode::Char('1'));
    for number in 0..100 {
        model.apply(added("pods", "shop", &format!("pod-{number}")), Instant::now());
    }
    assert!(text(&model, 80, 24).contains("shop/pod-99"));
    press(&mut model, KeyCode::PageDown);
    assert!(!text(&model, 80, 24).contains("shop/pod-99"));
    assert!(text(&model, 80, 24).contains("shop/pod-89"));
    for _ in 0..100 {
        press(&mut model, KeyCode::PageDown);
    }
    assert!(
        text(&model, 80, 24).contains("added   pods shop/cart"),
        "it stops at the last line"
    );
    press(&mut model, KeyCode::Home);
    assert!(text(&model, 80, 24).contains("shop/pod-99"));
}

#[tokio::test(start_paused = true)]
async fn diffs_can_be_hidden_and_help_shown() {
    let mut model = busy().await;
    press(&mut model, KeyCode::Char('d'));
    assert!(!text(&model, 80, 24).contains("status.phase"));
    press(&mut model, KeyCode::Char('?'));
    assert!(text(&model, 80, 24).contains("keys and words"));
    assert_eq!(press(&mut model, KeyCode::Char('x')), Outcome::Stay);
    assert!(!text(&model, 80, 24).contains("keys and words"));
}

#[tokio::test(start_paused = true)]
async fn r_retries_except_in_the_filter_and_in_the_help() {
    let mut model = busy().await;
    assert_eq!(press(&mut model, KeyCode::Char('r')), Outcome::Retry);
    press(&mut model, KeyCode::Char('/'));
    assert_eq!(press(&mut model, KeyCode::Char('r')), Outcome::Stay);
    assert!(text(&model, 80, 24).contains("filter r▏"));
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Char('?'));
    assert!(text(&model, 80, 24).contains("retry now"));
    assert_eq!(press(&mut model, KeyCode::Char('r')), Outcome::Stay);
}

#[tokio::test(start_paused = true)]
async fn the_footer_offers_a_retry_while_an_informer_fails() {
    let footer = |model: &Model| lines(model, 80, 24)[23].clone();
    let mut model = changed(|view| view.last_error = Some("connection refused".to_owned()));
    assert!(footer(&model).contains("r retry"), "{}", footer(&model));
    assert!(footer(&model).contains("q quit"), "{}", footer(&model));

    let [pods, nodes] = kinds();
    model.tick(vec![view(&pods), view(&nodes)], Instant::now());
    assert!(!footer(&model).contains("retry"), "{}", footer(&model));
}

#[tokio::test(start_paused = true)]
async fn q_and_ctrl_c_leave_from_everywhere() {
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let mut model = busy().await;
    assert_eq!(model.key(interrupt), Outcome::Interrupt);
    assert_eq!(press(&mut model, KeyCode::Char('q')), Outcome::Quit);
    press(&mut model, KeyCode::Char('/'));
    assert_eq!(press(&mut model, KeyCode::Char('q')), Outcome::Stay);
    assert_eq!(model.key(interrupt), Outcome::Interrupt);
    press(&mut model, KeyCode::Enter);
    press(&mut model, KeyCode::Char('?'));
    assert_eq!(press(&mut model, KeyCode::Char('q')), Outcome::Quit);
}

#[tokio::test(start_paused = true)]
async fn names_do_not_control_the_terminal() {
    let mut model = busy().await;
    let mut change = updated("pods", "shop", "evil", &["/a"]);
    change.diff[0].field = crate::text::safe::HOSTILE.to_owned();
    change.diff[0].new = Some(crate::text::safe::HOSTILE.into());
    model.apply(change, Instant::now());
    model.apply(added("pods", "shop", crate::text::safe::HOSTILE), Instant::now());
    model.filter = String::new();
    model.note(
        &Note {
            when: Timestamp::UNIX_EPOCH,
            kind: kinds()[0].clone(),
            text: NoteText::Trouble(crate::text::safe::HOSTILE.to_owned()),
        },
        Timestamp::UNIX_EPOCH,
    );
    for width in [80, 120] {
        let text = text(&model, width, 40);
        assert!(
            !text.replace('\n', "").contains(crate::text::safe::is_unsafe),
            "{text:?}"
        );
        assert!(text.contains("evil"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn text_beside_a_title_does_not_change_its_style() {
    use ratatui::style::{Color, Modifier};
    let model = busy().await;
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(&model, frame)).unwrap();

    let title = &terminal.backend().buffer()[(1, 0)];
    assert_eq!((title.symbol(), title.fg), ("i", Color::Cyan));
    assert!(title.modifier.contains(Modifier::BOLD));
}

#[tokio::test(start_paused = true)]
async fn enter_opens_the_marked_object_and_esc_returns() {
    let mut model = busy().await;
    assert!(text(&model, 80, 24).contains("▸"));
    let Outcome::Open(id) = press(&mut model, KeyCode::Enter) else {
        panic!("nothing is opened")
    };
    assert_eq!(id.key.as_str(), "shop/cart");
    let [pods, _] = kinds();
    model.open(id, Some(item(&pods, "shop", "cart")));
    let shown = text(&model, 80, 30);
    for part in [
        "pods shop/cart",
        "changed pods shop/cart",
        "status.phase",
        "metadata:",
        "name: cart",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    press(&mut model, KeyCode::PageDown);
    press(&mut model, KeyCode::Esc);
    assert!(model.opened().is_none());
    assert!(text(&model, 80, 24).contains(" changes "));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_shown_as_it_last_was() {
    let mut model = busy().await;
    press(&mut model, KeyCode::Char('2'));
    let Outcome::Open(id) = press(&mut model, KeyCode::Enter) else {
        panic!("nothing is opened")
    };
    model.open(id, None);
    let shown = text(&model, 80, 30);
    assert!(
        shown.contains("deleted") && shown.contains("name: cart"),
        "{shown}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_command_switches_kind_namespace_and_context() {
    use super::switch::Switch;
    let mut model = busy().await;
    press(&mut model, KeyCode::Char(':'));
    write(&mut model, "ns shopp");
    press(&mut model, KeyCode::Backspace);
    assert!(lines(&model, 80, 24)[23].contains(": ns shop▏"));
    assert_eq!(
        press(&mut model, KeyCode::Enter),
        Outcome::Switch(Switch::Namespaces(vec!["shop".to_owned()]))
    );
    press(&mut model, KeyCode::Char(':'));
    write(&mut model, "ctx");
    assert_eq!(press(&mut model, KeyCode::Enter), Outcome::Stay);
    assert!(lines(&model, 80, 24)[23].contains("write :ctx NAME"));
    press(&mut model, KeyCode::Char(':'));
    assert_eq!(press(&mut model, KeyCode::Esc), Outcome::Stay);
    assert!(lines(&model, 80, 24)[23].contains("q quit"));
}

#[tokio::test(start_paused = true)]
async fn trouble_has_a_list_of_its_own() {
    let mut model = busy().await;
    press(&mut model, KeyCode::Char('4'));
    assert!(text(&model, 80, 24).contains("no object is rewritten in a loop"));
    for number in 0..8 {
        let mut change = updated("pods", "shop", "web", &["/spec/replicas"]);
        change.diff[0].new = Some((number % 2).into());
        model.apply(change, Instant::now());
    }
    for (width, height) in [(80, 24), (120, 40)] {
        let shown = text(&model, width, height);
        for part in [
            "trouble",
            "loop",
            "pods shop/web",
            "spec.replicas  by an unknown manager",
        ] {
            assert!(shown.contains(part), "{part} is not in\n{shown}");
        }
    }
    write(&mut model, "/!web");
    assert!(text(&model, 80, 24).contains("nothing here has these words"));
}
