//! The controllers of the embedded server against recordings of kube-controller-manager; see `src/controllers`.

use std::time::Duration;

use kube_informers_e2e::controllers::{Difference, Recording, STORIES, Story, World, differences};
use kube_testserver::{Controllers, PodRule, TestServer};

/// A known difference: the story, the place (`*` stands for anything but a slash), and the reason.
struct Known {
    story: &'static str,
    at: &'static str,
    reason: &'static str,
}

const KNOWN: &[Known] = &[Known {
    story: "endpoint-slices",
    at: "*/*/metadata/annotations",
    reason: "the time of the change that caused an update is not written",
}];

/// Long enough for every back-off of the stories, on a paused clock.
const TIMEOUT: Duration = Duration::from_secs(600);

async fn play(story: &Story) -> World {
    let server = TestServer::builder()
        .conformant()
        .controllers(Controllers::all())
        .build();
    let matching = |selector| PodRule::matching(selector).expect("a selector");
    server.pod_rule(matching("fate=unready").never_ready());
    server.pod_rule(
        matching("fate=fails")
            .never_ready()
            .fail_after(Duration::from_secs(1)),
    );
    let mut world = World::new(server.client(), TIMEOUT);
    let played = story.play(&mut world).await;
    played.unwrap_or_else(|failed| panic!("{}: {failed}", story.name));
    world
}

impl Known {
    fn covers(&self, story: &str, difference: &Difference) -> bool {
        let (known, found): (Vec<&str>, Vec<&str>) =
            (self.at.split('/').collect(), difference.at.split('/').collect());
        self.story == story
            && known.len() <= found.len()
            && known
                .iter()
                .zip(&found)
                .all(|(known, found)| match known.split_once('*') {
                    Some((start, end)) => found.starts_with(start) && found.ends_with(end),
                    None => known == found,
                })
    }
}

async fn compare(name: &str) {
    let story = STORIES.iter().find(|story| story.name == name);
    let story = story.unwrap_or_else(|| panic!("there is no story {name}"));
    let recording = Recording::read(name).unwrap_or_else(|error| panic!("{error}"));
    let found = differences(&recording.pictures, &play(story).await.pictures);
    for known in KNOWN.iter().filter(|known| known.story == name) {
        assert!(
            found.iter().any(|difference| known.covers(name, difference)),
            "no longer differs, remove it from the list: {name}/{} ({})",
            known.at,
            known.reason
        );
    }
    let unknown: Vec<String> = found
        .iter()
        .filter(|difference| !KNOWN.iter().any(|known| known.covers(name, difference)))
        .map(ToString::to_string)
        .collect();
    assert!(
        unknown.is_empty(),
        "{} differences from kube-controller-manager:\n{}",
        unknown.len(),
        unknown.join("\n")
    );
}

macro_rules! stories {
    ($($test:ident: $story:literal;)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $test() {
                compare($story).await;
            }
        )*

        #[test]
        fn every_story_is_compared() {
            let compared = [$($story),*];
            assert_eq!(STORIES.iter().map(|story| story.name).collect::<Vec<_>>(), compared);
        }
    };
}

stories! {
    rollouts_and_rollbacks_end_as_with_kube_controller_manager: "rollout";
    rollouts_that_do_not_progress_end_as_with_kube_controller_manager: "stuck-rollout";
    scaling_ends_as_with_kube_controller_manager: "scale";
    recreated_deployments_end_as_with_kube_controller_manager: "recreate";
    adopted_and_released_pods_end_as_with_kube_controller_manager: "adoption";
    stateful_sets_end_as_with_kube_controller_manager: "stateful-set";
    daemon_sets_end_as_with_kube_controller_manager: "daemon-set";
    jobs_end_as_with_kube_controller_manager: "job";
    failed_jobs_end_as_with_kube_controller_manager: "failed-job";
    endpoint_slices_end_as_with_kube_controller_manager: "endpoint-slices";
    deletions_end_as_with_kube_controller_manager: "deletion";
}
