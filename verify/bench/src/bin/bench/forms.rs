//! The forms of a cache beside client-go and kube-runtime: typed, packed, projected and metadata only.

use crate::Result;
use crate::book::Book;
use crate::opponent::{Job, Peer, Programs, Server};
use crate::real::{SyncFigures, add, sync};
use crate::replayed::{Amount, Replay, Updates, add_rate, play};

const REAL: SyncFigures = SyncFigures {
    cpu: "packed-real-cpu",
    wall: "packed-real-wall",
    peak: "packed-real-peak",
    steady: "packed-real-steady",
};

const REPLAYED: SyncFigures = SyncFigures {
    cpu: "packed-replay-cpu",
    wall: "packed-replay-wall",
    peak: "packed-replay-peak",
    steady: "packed-replay-steady",
};

/// The initial list of one form from a real server, once.
///
/// # Errors
///
/// The peer fails.
pub async fn real(
    programs: &Programs,
    peer: Peer,
    server: Server<'_>,
    objects: usize,
    book: &mut Book,
) -> Result<()> {
    let opponent = sync(programs, peer, Job::pods(server, objects), &REAL, book).await?;
    opponent.stop().await
}

/// The initial list of one form from the replay server, updates, and reads, once.
///
/// # Errors
///
/// The peer or the replay server fail.
pub async fn replayed(
    programs: &Programs,
    peer: Peer,
    replay: &Replay,
    amount: Amount,
    book: &mut Book,
) -> Result<()> {
    replay.command("reset").await?;
    let server = Server::Url(replay.url());
    let job = Job::pods(server, amount.objects);
    let mut opponent = sync(programs, peer, job, &REPLAYED, book).await?;
    let unpaced = Updates {
        round: 1,
        events: amount.storm,
        per_second: None,
    };
    let (measured, cpu) = play(&mut opponent, replay, unpaced).await?;
    book.add("packed-storm-cpu", peer, cpu);
    add_rate(book, "packed-storm-rate", peer, &measured, amount.storm);
    let paced = Updates {
        round: 2,
        events: amount.per_second as usize * amount.seconds as usize,
        per_second: Some(amount.per_second),
    };
    let (measured, cpu) = play(&mut opponent, replay, paced).await?;
    book.add("packed-paced-cpu", peer, cpu);
    add(book, "packed-paced-p99", peer, &measured, "p99_us", 1.0);
    opponent.command(&format!("reads {}", amount.objects)).await?;
    let reads = opponent.says("reads").await?;
    add(book, "packed-node", peer, &reads, "node_ns", 1.0);
    add(book, "packed-whole", peer, &reads, "whole_ns", 1.0);
    opponent.stop().await
}
