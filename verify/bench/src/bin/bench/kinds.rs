//! Initial lists of other kinds than pods, from a real server.

use kube_informers_bench::kind::Kind;

use crate::Result;
use crate::book::Book;
use crate::opponent::{Job, Peer, Programs, Server};
use crate::real::{SyncFigures, sync};

/// The columns of the table.
pub const PEERS: [Peer; 4] = [Peer::ClientGo, Peer::KubeRuntime, Peer::Ours, Peer::Packed];

/// The figures of a kind.
#[must_use]
pub const fn figures(kind: Kind) -> SyncFigures {
    match kind {
        Kind::Pods => SyncFigures {
            cpu: "pods-cpu",
            wall: "pods-wall",
            peak: "pods-peak",
            steady: "pods-steady",
        },
        Kind::Secrets => SyncFigures {
            cpu: "secrets-cpu",
            wall: "secrets-wall",
            peak: "secrets-peak",
            steady: "secrets-steady",
        },
        Kind::ConfigMaps => SyncFigures {
            cpu: "configmaps-cpu",
            wall: "configmaps-wall",
            peak: "configmaps-peak",
            steady: "configmaps-steady",
        },
        Kind::Events => SyncFigures {
            cpu: "events-cpu",
            wall: "events-wall",
            peak: "events-peak",
            steady: "events-steady",
        },
    }
}

/// The initial list of one kind by every peer, once.
///
/// # Errors
///
/// A peer fails.
pub async fn run(
    programs: &Programs,
    server: Server<'_>,
    (kind, objects): (Kind, usize),
    book: &mut Book,
) -> Result<()> {
    for peer in PEERS.into_iter().filter(|peer| programs.has(*peer)) {
        let job = Job {
            kind,
            ..Job::pods(server, objects)
        };
        let opponent = sync(programs, peer, job, &figures(kind), book).await?;
        opponent.stop().await?;
    }
    Ok(())
}
