//! The terminal: sets it up, draws on it, reads keys, and restores it however the program ends.

use std::io::{self, IsTerminal};
use std::panic;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use crossterm::execute;
use crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, enable_raw_mode};
use futures_util::StreamExt;
use jiff::Timestamp;
use ratatui::backend::CrosstermBackend;
use ratatui::{DefaultTerminal, Terminal};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::switch::Switch;
use super::{Model, Outcome, draw};
use crate::board::{Board, ObjectId};
use crate::cli::Global;
use crate::cluster::Cluster;
use crate::objects::item::Item;
use crate::output::notes::Notes;
use crate::output::style::Colours;
use crate::process::failure::{Exit, Failure};
use crate::process::signals;
use crate::session::{Feed, FeedItem, Reach, Session};

/// The interval at which informers are polled.
const TICK: Duration = Duration::from_secs(1);
/// The minimum interval between two frames; more cannot be read, and loads the terminal.
const DRAW: Duration = Duration::from_millis(100);
/// The number of changes applied before timers and keys are checked again.
const BATCH: usize = 256;

/// The terminal in raw mode. Dropping it restores the terminal.
struct Screen {
    /// Taken by [`Screen::leave`] only.
    terminal: Option<DefaultTerminal>,
    panicked: Arc<AtomicBool>,
}

impl Screen {
    fn take() -> Result<Self, Failure> {
        let terminal = ratatui::try_init().map_err(|error| {
            ratatui::restore();
            Failure::error(format!(
                "cannot draw on this terminal: {error}; use --plain for lines instead"
            ))
        })?;
        // The hook that was just set gives the terminal back. A panic of a background task leaves the screen running on
        // a terminal that is not ours any more: so it must end, too.
        let panicked = Arc::new(AtomicBool::new(false));
        let (flag, restore) = (panicked.clone(), panic::take_hook());
        panic::set_hook(Box::new(move |info| {
            flag.store(true, Ordering::SeqCst);
            restore(info);
        }));
        Ok(Self {
            terminal: Some(terminal),
            panicked,
        })
    }

    /// Gives the terminal back, stops the process as Ctrl-Z does, and takes the terminal again when the process goes on.
    #[cfg(unix)]
    fn suspend(&mut self) -> io::Result<()> {
        use rustix::process::{Signal, getpid, kill_process};
        ratatui::try_restore()?;
        // Returns when the process is continued: `fg`.
        kill_process(getpid(), Signal::STOP)?;
        self.resume()
    }

    #[cfg(not(unix))]
    fn suspend(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Takes the terminal after somebody else had it. Nothing of what was drawn is left.
    fn resume(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, Clear(ClearType::All))?;
        // A new one has nothing on the screen to compare with, so it draws everything. Clearing the old one would ask the
        // terminal for the position of the cursor, and the answer would arrive among the keys.
        self.leave();
        let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        terminal.hide_cursor()?;
        self.terminal = Some(terminal);
        Ok(())
    }

    /// Ends drawing. A terminal that is gone cannot be restored, and there is nowhere to report that: ratatui would print
    /// the error on the same terminal, which panics.
    fn leave(&mut self) {
        if let Some(mut terminal) = self.terminal.take() {
            let _ = terminal.show_cursor();
            std::mem::forget(terminal);
        }
    }

    fn draw(&mut self, model: &Model) -> io::Result<()> {
        match &mut self.terminal {
            Some(terminal) => terminal.draw(|frame| draw(model, frame)).map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
        let _ = ratatui::try_restore();
    }
}

/// The exit after the terminal is gone, as after SIGHUP.
const HUNG_UP: Exit = Exit::Code(129);

/// Whether the terminal was closed.
fn is_gone() -> bool {
    !(io::stdin().is_terminal() && io::stdout().is_terminal())
}

/// Notices that the process was continued (SIGCONT).
struct Continued {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Continued {
    #[cfg(unix)]
    fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let kind = SignalKind::from_raw(rustix::process::Signal::CONT.as_raw());
        Self {
            signal: signal(kind).ok(),
        }
    }

    #[cfg(not(unix))]
    fn listen() -> Self {
        Self {}
    }

    /// Cancel-safe.
    async fn recv(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

/// Shows the screen until it is stopped.
///
/// # Errors
///
/// The terminal cannot be used, or a part of the program panicked.
pub(super) async fn run(global: &Global, kinds: &str, session: Session, feed: Feed) -> Result<Exit, Failure> {
    // Before the terminal is taken: a signal in between would leave it as it is.
    let stopped = pin!(signals::stopped());
    let screen = Screen::take()?;
    let mut subject = Subject {
        global: global.clone(),
        kinds: kinds.to_owned(),
        session,
        feed,
    };
    let exit = show(screen, stopped, &mut subject).await;
    subject.session.close().await;
    exit
}

/// What the screen is about.
struct Subject {
    global: Global,
    kinds: String,
    session: Session,
    feed: Feed,
}

impl Subject {
    fn model(&self) -> Model {
        let now = Instant::now();
        let kinds = self
            .session
            .observed()
            .iter()
            .map(|observed| observed.kind.clone());
        let colours = Colours::on(&io::stdout(), self.global.showing.color) == Colours::new(true);
        Model::new(
            Board::new(kinds, now),
            self.session.cluster().title(),
            colours,
            now,
        )
    }

    /// The current state of an object.
    fn object(&self, id: &ObjectId) -> Option<Arc<Item>> {
        let observed = self.session.observed().get(id.kind)?;
        observed.informer.store().get(&id.key)
    }

    /// Something else on the same screen, once its kinds are found.
    fn switch(&self, switch: &Switch) -> Opening {
        let (mut global, mut kinds) = (self.global.clone(), self.kinds.clone());
        switch.apply(&mut global, &mut kinds);
        let cluster = (!switch.changes_cluster()).then(|| self.session.cluster().clone());
        Box::pin(async move {
            let cluster = match cluster {
                Some(cluster) => cluster,
                None => Cluster::connect(&global.connection, &Notes::silent()).await?,
            };
            let (session, feed) = Session::open(cluster, &kinds, &global, Reach::Everywhere).await?;
            Ok(Self {
                global,
                kinds,
                session,
                feed,
            })
        })
    }
}

/// A subject that is being opened.
type Opening = Pin<Box<dyn Future<Output = Result<Subject, Failure>>>>;

/// Waits for a subject; never returns if there is none. Cancel-safe: it can be continued.
async fn opened(opening: &mut Option<Opening>) -> Result<Subject, Failure> {
    match opening {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}

async fn show(
    mut screen: Screen,
    mut stopped: Pin<&mut impl Future<Output = Exit>>,
    subject: &mut Subject,
) -> Result<Exit, Failure> {
    let mut model = subject.model();
    let mut opening: Option<Opening> = None;
    let mut keys = EventStream::new();
    let mut tick = interval(TICK);
    let mut frame = interval(DRAW);
    for timer in [&mut tick, &mut frame] {
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let (mut dirty, mut open) = (true, true);
    let mut continued = Continued::listen();
    loop {
        // All are cancel-safe: keys and changes are returned or kept, a tick may be late.
        tokio::select! {
            biased;
            exit = &mut stopped => return Ok(exit),
            key = keys.next() => match key {
                Some(Ok(Event::Key(key))) => {
                    match model.key(key) {
                        Outcome::Stay => {}
                        Outcome::Open(id) => {
                            let object = subject.object(&id);
                            model.open(id, object);
                        }
                        Outcome::Switch(switch) => {
                            opening = Some(subject.switch(&switch));
                            model.say("connecting …");
                        }
                        Outcome::Retry => subject.session.retry_now(),
                        Outcome::Quit => return Ok(Exit::Success),
                        Outcome::Interrupt => return Ok(Exit::Code(130)),
                        Outcome::Suspend => screen.suspend()?,
                    }
                    dirty = true;
                }
                Some(Ok(Event::Resize(..))) => dirty = true,
                Some(Ok(_)) => {}
                // No more keys: the terminal is gone.
                Some(Err(_)) | None => return Ok(HUNG_UP),
            },
            // Continued after it was stopped from outside: the shell has changed the terminal.
            () = continued.recv() => {
                screen.resume()?;
                dirty = true;
            }
            _ = tick.tick() => {
                // A terminal that was closed without a signal does not end the stream of keys on every system.
                if is_gone() {
                    return Ok(HUNG_UP);
                }
                model.tick(subject.session.informers(), Instant::now());
                if let Some(id) = model.opened() {
                    let object = subject.object(id);
                    model.refresh(object);
                }
                dirty = true;
            }
            _ = frame.tick(), if dirty => {
                if screen.panicked.load(Ordering::SeqCst) {
                    return Err(Failure::error("a part of the program panicked; what it said is above"));
                }
                match screen.draw(&model) {
                    Err(_) if is_gone() => return Ok(HUNG_UP),
                    drawn => drawn?,
                }
                dirty = false;
            }
            result = opened(&mut opening) => {
                opening = None;
                dirty = true;
                match result {
                    Ok(next) => {
                        let before = std::mem::replace(subject, next);
                        before.session.close().await;
                        model = subject.model();
                        open = true;
                    }
                    // What was shown before is still shown.
                    Err(failure) => model.complain(failure.text()),
                }
            }
            item = subject.feed.next(), if open => {
                open = item.is_some();
                let more = std::iter::from_fn(|| subject.feed.try_next()).take(BATCH);
                for item in item.into_iter().chain(more) {
                    match item {
                        FeedItem::Change(change) => model.apply(change, Instant::now()),
                        FeedItem::Note(note) => model.note(&note, Timestamp::now()),
                        // The log of changes is shorter than the queue: what was merged would not be shown anyway.
                        FeedItem::Coalesced(_) => {}
                    }
                }
                dirty = true;
            }
        }
    }
}
