//! Records what kube-controller-manager makes of the stories about workloads, or checks that the recordings are still current.
//!
//! The recordings are `verify/scenarios/tests/controllers/*.json`. The first run builds kube-apiserver, etcd and kube-controller-manager.

use kube_informers_e2e::controllers::{Recording, STORIES, World, differences};
use kube_informers_e2e::recorder::Recorder;
use kube_informers_e2e::{NoServer, Server, Setup, TIMEOUT};

/// Plays the stories; returns the number of differences.
pub async fn run(recorder: &Recorder) -> Result<usize, NoServer> {
    let fail = NoServer::Failed;
    let mut different = 0;
    for story in STORIES {
        if !recorder.wants(story.name) {
            continue;
        }
        let server = Server::own(&Setup::own()).await?;
        let cluster = server
            .as_cluster()
            .ok_or_else(|| fail("the server is not a cluster".to_owned()))?;
        cluster.start_controllers().await?;
        let client = server
            .client()
            .map_err(|error| fail(format!("no client for the server: {error}")))?;
        let version = client
            .apiserver_version()
            .await
            .map_err(|error| fail(format!("no version of the server: {error}")))?;
        let mut world = World::without_kubelets(client, TIMEOUT);
        let played = story.play(&mut world).await;
        played.map_err(|failed| fail(format!("{}: {failed}", story.name)))?;
        if recorder.write {
            let recording = Recording {
                controllers: format!("kube-controller-manager {}", version.git_version),
                pictures: world.pictures,
            };
            recording.write(story.name).map_err(fail)?;
            println!("{}: {} pictures", story.name, recording.pictures.len());
            continue;
        }
        let recording = Recording::read(story.name).map_err(fail)?;
        for difference in differences(&recording.pictures, &world.pictures) {
            different += 1;
            println!("{}/{difference}", story.name);
        }
    }
    if !recorder.write {
        println!("the stories of the controllers, on kube-controller-manager: {different} differences");
    }
    Ok(different)
}
