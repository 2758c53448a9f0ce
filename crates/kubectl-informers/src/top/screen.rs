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

use super::{Model, Outcome, draw};
use crate::board::Board;
use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::session::{Feed, FeedItem, Session};
use crate::signals;
use crate::style::Colours;

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
pub(super) async fn run(global: &Global, session: Session, feed: Feed) -> Result<Exit, Failure> {
    // Before the terminal is taken: a signal in between would leave it as it is.
    let stopped = pin!(signals::stopped());
    let screen = Screen::take()?;
    let exit = show(screen, stopped, global, &session, feed).await;
    session.close().await;
    exit
}

async fn show(
    mut screen: Screen,
    mut stopped: Pin<&mut impl Future<Output = Exit>>,
    global: &Global,
    session: &Session,
    mut feed: Feed,
) -> Result<Exit, Failure> {
    let now = Instant::now();
    let board = Board::new(
        session.observed().iter().map(|observed| observed.kind.clone()),
        now,
    );
    let colours = Colours::on(&io::stdout(), global.showing.color) == Colours::new(true);
    let mut model = Model::new(board, session.cluster().title(), colours, now);
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
                        Outcome::Retry => session.retry_now(),
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
                model.tick(session.informers(), Instant::now());
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
            item = feed.next(), if open => {
                open = item.is_some();
                let more = std::iter::from_fn(|| feed.try_next()).take(BATCH);
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
