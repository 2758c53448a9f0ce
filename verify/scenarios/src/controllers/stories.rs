//! What users do to workloads.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::kubelet::{FAILS, LABEL, UNREADY};
use super::picture::{Picture, text};
use super::world::World;

/// A story, and the nodes of its cluster.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    /// The name of its recording.
    pub name: &'static str,
    /// The names of the nodes.
    pub nodes: &'static [&'static str],
    play: fn(&mut World) -> BoxFuture<'_, Result<(), String>>,
}

impl Story {
    /// Plays the story on a cluster without namespace and nodes; the pictures are in the world.
    ///
    /// # Errors
    ///
    /// The server refuses a request, or the cluster does not come to rest as expected.
    pub async fn play(&self, world: &mut World) -> Result<(), String> {
        world.prepare(self.nodes).await?;
        (self.play)(world).await
    }
}

const ONE_NODE: &[&str] = &["n1"];

/// All stories.
pub const STORIES: &[Story] = &[
    Story {
        name: "rollout",
        nodes: ONE_NODE,
        play: |world| Box::pin(rollout(world)),
    },
    Story {
        name: "stuck-rollout",
        nodes: ONE_NODE,
        play: |world| Box::pin(stuck_rollout(world)),
    },
    Story {
        name: "scale",
        nodes: ONE_NODE,
        play: |world| Box::pin(scale(world)),
    },
    Story {
        name: "recreate",
        nodes: ONE_NODE,
        play: |world| Box::pin(recreate(world)),
    },
    Story {
        name: "adoption",
        nodes: ONE_NODE,
        play: |world| Box::pin(adoption(world)),
    },
    Story {
        name: "stateful-set",
        nodes: ONE_NODE,
        play: |world| Box::pin(stateful_set(world)),
    },
    Story {
        name: "daemon-set",
        nodes: &["n1", "n2", "n3"],
        play: |world| Box::pin(daemon_set(world)),
    },
    Story {
        name: "job",
        nodes: ONE_NODE,
        play: |world| Box::pin(job(world)),
    },
    Story {
        name: "failed-job",
        nodes: ONE_NODE,
        play: |world| Box::pin(failed_job(world)),
    },
    Story {
        name: "endpoint-slices",
        nodes: ONE_NODE,
        play: |world| Box::pin(endpoint_slices(world)),
    },
    Story {
        name: "deletion",
        nodes: ONE_NODE,
        play: |world| Box::pin(deletion(world)),
    },
];

const DEPLOYMENTS: &str = "deployments.apps";
const STATEFUL_SETS: &str = "statefulsets.apps";
const DAEMON_SETS: &str = "daemonsets.apps";
const REPLICA_SETS: &str = "replicasets.apps";
const JOBS: &str = "jobs.batch";

fn template(app: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [{ "name": "main", "image": "shop:1", "ports": [{ "name": "http", "containerPort": 8080 }] }] },
    })
}

fn workload(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "selector": { "matchLabels": { "app": name } }, "template": template(name) },
    })
}

fn deployment(name: &str, replicas: i64) -> Value {
    let mut deployment = workload("Deployment", name);
    deployment["spec"]["replicas"] = replicas.into();
    deployment
}

/// A change of the image: a new template.
fn image(image: &str) -> Value {
    let containers =
        json!([{ "name": "main", "image": image, "ports": [{ "name": "http", "containerPort": 8080 }] }]);
    json!({ "spec": { "template": { "spec": { "containers": containers } } } })
}

fn replicas(number: i64) -> Value {
    json!({ "spec": { "replicas": number } })
}

/// Whether a deployment has this number of pods, all of the latest template and available.
fn is_complete(picture: &Picture, name: &str, wanted: i64) -> bool {
    let counts = |field: &str| {
        let value = picture.at(DEPLOYMENTS, name, &format!("/status/{field}"));
        value.as_i64().unwrap_or(0) == wanted
    };
    picture.is_observed(DEPLOYMENTS, name)
        && ["replicas", "updatedReplicas", "availableReplicas"]
            .into_iter()
            .all(counts)
        && picture.all("pods").len() == usize::try_from(wanted).unwrap_or(0)
}

async fn rollout(world: &mut World) -> Result<(), String> {
    world.create(DEPLOYMENTS, &deployment("web", 3)).await?;
    world
        .picture("1 created", |now| is_complete(now, "web", 3))
        .await?;
    world.patch(DEPLOYMENTS, "web", &image("shop:2")).await?;
    world
        .picture("2 updated", |now| is_complete(now, "web", 3))
        .await?;
    world.patch(DEPLOYMENTS, "web", &image("shop:3")).await?;
    world
        .picture("3 updated again", |now| is_complete(now, "web", 3))
        .await?;
    // What `kubectl rollout undo` does.
    world.patch(DEPLOYMENTS, "web", &image("shop:1")).await?;
    world
        .picture("4 back to the first", |now| is_complete(now, "web", 3))
        .await?;
    world
        .patch(DEPLOYMENTS, "web", &json!({ "spec": { "paused": true } }))
        .await?;
    world.patch(DEPLOYMENTS, "web", &image("shop:4")).await?;
    world
        .picture("5 changed while paused", |now| {
            now.is_observed(DEPLOYMENTS, "web")
        })
        .await?;
    let resumed = json!({ "spec": { "paused": false, "revisionHistoryLimit": 1 } });
    world.patch(DEPLOYMENTS, "web", &resumed).await?;
    world
        .picture("6 resumed with a shorter history", |now| {
            is_complete(now, "web", 3) && now.all(REPLICA_SETS).len() == 2
        })
        .await
}

async fn stuck_rollout(world: &mut World) -> Result<(), String> {
    let mut web = deployment("web", 4);
    web["spec"]["progressDeadlineSeconds"] = 5.into();
    web["metadata"]["annotations"] = json!({ "example.com/team": "shop" });
    world.create(DEPLOYMENTS, &web).await?;
    world
        .picture("1 created", |now| is_complete(now, "web", 4))
        .await?;
    let unready = json!({ "spec": { "template": { "metadata": { "labels": { LABEL: UNREADY } } } } });
    world.patch(DEPLOYMENTS, "web", &unready).await?;
    let late = |now: &Picture| {
        let conditions = now.at(DEPLOYMENTS, "web", "/status/conditions").to_string();
        now.is_observed(DEPLOYMENTS, "web") && conditions.contains("ProgressDeadlineExceeded")
    };
    world.picture("2 the new pods do not become ready", late).await?;
    world.patch(DEPLOYMENTS, "web", &replicas(8)).await?;
    world
        .picture("3 scaled in proportion", |now| {
            late(now) && now.all("pods").len() == 10
        })
        .await?;
    let ready = json!({ "spec": { "template": { "metadata": { "labels": { LABEL: null } } } } });
    world.patch(DEPLOYMENTS, "web", &ready).await?;
    world
        .picture("4 rolled back", |now| is_complete(now, "web", 8))
        .await
}

async fn scale(world: &mut World) -> Result<(), String> {
    world.create(DEPLOYMENTS, &deployment("web", 2)).await?;
    world.picture("1 two", |now| is_complete(now, "web", 2)).await?;
    for (name, number) in [("2 five", 5), ("3 one", 1), ("4 none", 0), ("5 two again", 2)] {
        world.patch(DEPLOYMENTS, "web", &replicas(number)).await?;
        world.picture(name, |now| is_complete(now, "web", number)).await?;
    }
    Ok(())
}

async fn recreate(world: &mut World) -> Result<(), String> {
    let mut web = deployment("web", 2);
    web["spec"]["strategy"] = json!({ "type": "Recreate" });
    web["spec"]["minReadySeconds"] = 1.into();
    world.create(DEPLOYMENTS, &web).await?;
    world
        .picture("1 created", |now| is_complete(now, "web", 2))
        .await?;
    world.patch(DEPLOYMENTS, "web", &image("shop:2")).await?;
    world.picture("2 updated", |now| is_complete(now, "web", 2)).await
}

async fn adoption(world: &mut World) -> Result<(), String> {
    let mut orphan = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "orphan", "labels": { "app": "web" } } });
    orphan["spec"] = template("web")["spec"].clone();
    world.create("pods", &orphan).await?;
    let mut set = workload("ReplicaSet", "web");
    set["spec"]["replicas"] = 2.into();
    world.create(REPLICA_SETS, &set).await?;
    let ready = |now: &Picture, pods: usize| {
        now.at(REPLICA_SETS, "web", "/status/availableReplicas") == 2 && now.all("pods").len() == pods
    };
    world.picture("1 adopted", |now| ready(now, 2)).await?;
    let released = json!({ "metadata": { "labels": { "app": "other" } } });
    world.patch("pods", "orphan", &released).await?;
    world.picture("2 released", |now| ready(now, 3)).await?;
    let mut other = deployment("other", 1);
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "shop:9".into();
    world.create(DEPLOYMENTS, &other).await?;
    world
        .picture("3 a deployment adopts no pod without its hash", |now| {
            now.at(DEPLOYMENTS, "other", "/status/availableReplicas") == 1
        })
        .await
}

async fn stateful_set(world: &mut World) -> Result<(), String> {
    let mut db = workload("StatefulSet", "db");
    db["spec"]["replicas"] = 3.into();
    db["spec"]["serviceName"] = "db".into();
    db["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }]);
    world.create(STATEFUL_SETS, &db).await?;
    let is_complete = |now: &Picture, wanted: i64| {
        let counts = |field: &str| {
            let value = now.at(STATEFUL_SETS, "db", &format!("/status/{field}"));
            value.as_i64().unwrap_or(0) == wanted
        };
        now.is_observed(STATEFUL_SETS, "db")
            && ["replicas", "readyReplicas", "availableReplicas"]
                .into_iter()
                .all(counts)
    };
    let images = |now: &Picture| -> Vec<String> {
        let image = |pod: &Value| text(pod, "/spec/containers/0/image").to_owned();
        now.all("pods").iter().map(image).collect()
    };
    world.picture("1 created", |now| is_complete(now, 3)).await?;
    world.patch(STATEFUL_SETS, "db", &image("shop:2")).await?;
    world
        .picture("2 updated", |now| {
            is_complete(now, 3) && images(now) == ["shop:2", "shop:2", "shop:2"]
        })
        .await?;
    let mut partitioned = image("shop:3");
    partitioned["spec"]["updateStrategy"] = json!({ "rollingUpdate": { "partition": 2 } });
    world.patch(STATEFUL_SETS, "db", &partitioned).await?;
    world
        .picture("3 only the last is updated", |now| {
            is_complete(now, 3) && images(now) == ["shop:2", "shop:2", "shop:3"]
        })
        .await?;
    world.patch(STATEFUL_SETS, "db", &replicas(1)).await?;
    world
        .picture("4 scaled down", |now| {
            is_complete(now, 1) && now.all("pods").len() == 1
        })
        .await?;
    world.patch(STATEFUL_SETS, "db", &replicas(2)).await?;
    world.picture("5 scaled up", |now| is_complete(now, 2)).await?;
    let mut web = workload("StatefulSet", "web");
    web["spec"]["replicas"] = 2.into();
    web["spec"]["podManagementPolicy"] = "Parallel".into();
    web["spec"]["template"]["metadata"]["labels"][LABEL] = UNREADY.into();
    world.create(STATEFUL_SETS, &web).await?;
    world
        .picture("6 pods that are not ready, in parallel", |now| {
            now.at(STATEFUL_SETS, "web", "/status/replicas") == 2
        })
        .await
}

async fn daemon_set(world: &mut World) -> Result<(), String> {
    world.create(DAEMON_SETS, &workload("DaemonSet", "agent")).await?;
    let is_complete = |now: &Picture, wanted: i64| {
        let counts = |field: &str| {
            let value = now.at(DAEMON_SETS, "agent", &format!("/status/{field}"));
            value.as_i64().unwrap_or(0) == wanted
        };
        let fields = [
            "desiredNumberScheduled",
            "updatedNumberScheduled",
            "numberAvailable",
        ];
        now.is_observed(DAEMON_SETS, "agent") && fields.into_iter().all(counts)
    };
    world.picture("1 created", |now| is_complete(now, 3)).await?;
    world.patch(DAEMON_SETS, "agent", &image("shop:2")).await?;
    world.picture("2 updated", |now| is_complete(now, 3)).await?;
    let selected = json!({ "kubernetes.io/hostname": "n2" });
    let selected = json!({ "spec": { "template": { "spec": { "nodeSelector": selected } } } });
    world.patch(DAEMON_SETS, "agent", &selected).await?;
    world
        .picture("3 only on one node", |now| {
            is_complete(now, 1) && now.all("pods").len() == 1
        })
        .await?;
    let everywhere = json!({ "spec": { "updateStrategy": { "type": "OnDelete", "rollingUpdate": null },
        "template": { "spec": { "nodeSelector": null } } } });
    world.patch(DAEMON_SETS, "agent", &everywhere).await?;
    world
        .picture("4 everywhere, updated on deletion", |now| {
            now.is_observed(DAEMON_SETS, "agent") && now.all("pods").len() == 3
        })
        .await
}

fn job_named(name: &str, spec: &Value) -> Value {
    let mut job =
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec });
    let mut template = template(name);
    template["spec"]["restartPolicy"] = "Never".into();
    job["spec"]["template"] = template;
    job
}

/// Whether a job has a condition.
fn has_condition(now: &Picture, name: &str, kind: &str) -> bool {
    let conditions = now.at(JOBS, name, "/status/conditions").as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

async fn job(world: &mut World) -> Result<(), String> {
    let spec = json!({ "completions": 4, "parallelism": 2 });
    world.create(JOBS, &job_named("batch", &spec)).await?;
    world
        .picture("1 complete", |now| has_condition(now, "batch", "Complete"))
        .await?;
    let spec = json!({ "completions": 3, "parallelism": 3, "completionMode": "Indexed" });
    world.create(JOBS, &job_named("indexed", &spec)).await?;
    world
        .picture("2 indexed", |now| has_condition(now, "indexed", "Complete"))
        .await?;
    let spec = json!({ "suspend": true });
    world.create(JOBS, &job_named("later", &spec)).await?;
    world
        .picture("3 suspended", |now| has_condition(now, "later", "Suspended"))
        .await?;
    world
        .patch(JOBS, "later", &json!({ "spec": { "suspend": false } }))
        .await?;
    world
        .picture("4 resumed", |now| has_condition(now, "later", "Complete"))
        .await
}

async fn failed_job(world: &mut World) -> Result<(), String> {
    let spec = json!({ "backoffLimit": 1, "completions": 2 });
    let mut fails = job_named("fails", &spec);
    fails["spec"]["template"]["metadata"]["labels"][LABEL] = FAILS.into();
    world.create(JOBS, &fails).await?;
    world
        .picture("1 failed twice", |now| has_condition(now, "fails", "Failed"))
        .await?;
    let spec = json!({ "backoffLimit": 0, "completions": 3, "parallelism": 3, "completionMode": "Indexed" });
    let mut indexed = job_named("indexed", &spec);
    indexed["spec"]["template"]["metadata"]["labels"][LABEL] = FAILS.into();
    world.create(JOBS, &indexed).await?;
    world
        .picture("2 all indexes failed", |now| {
            has_condition(now, "indexed", "Failed")
        })
        .await
}

async fn endpoint_slices(world: &mut World) -> Result<(), String> {
    let service = |name: &str, port: Value, spec: Value| {
        let mut service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "labels": { "team": "shop" } }, "spec": spec });
        service["spec"]["ports"] = json!([{ "name": "http", "port": 80, "targetPort": port }]);
        service
    };
    world.create(DEPLOYMENTS, &deployment("web", 2)).await?;
    let web = json!({ "selector": { "app": "web" } });
    world
        .create("services", &service("web", "http".into(), web))
        .await?;
    let headless = json!({ "selector": { "app": "web" }, "clusterIP": "None" });
    world
        .create("services", &service("headless", 8080.into(), headless))
        .await?;
    let nothing = json!({ "selector": { "app": "nothing" } });
    world
        .create("services", &service("empty", 8080.into(), nothing))
        .await?;
    world
        .create("services", &service("manual", 8080.into(), json!({})))
        .await?;
    const SLICES: &str = "endpointslices.discovery.k8s.io";
    let endpoints = |now: &Picture, service: &str| {
        let mut slices = now.all(SLICES).iter();
        let slice =
            slices.find(|slice| text(slice, "/metadata/labels/kubernetes.io~1service-name") == service);
        slice
            .and_then(|slice| slice["endpoints"].as_array().map(Vec::len))
            .unwrap_or(0)
    };
    world
        .picture("1 services", |now| {
            is_complete(now, "web", 2) && endpoints(now, "web") == 2 && now.all(SLICES).len() == 3
        })
        .await?;
    let mut other = deployment("other", 1);
    let labels = json!({ "app": "web", "role": "other", LABEL: UNREADY });
    other["spec"]["selector"]["matchLabels"] = labels.clone();
    other["spec"]["template"]["metadata"]["labels"] = labels;
    world.create(DEPLOYMENTS, &other).await?;
    world
        .picture("2 an endpoint that is not ready", |now| {
            endpoints(now, "web") == 3 && endpoints(now, "headless") == 3
        })
        .await?;
    let published = json!({ "spec": { "publishNotReadyAddresses": true } });
    world.patch("services", "headless", &published).await?;
    world.patch(DEPLOYMENTS, "web", &replicas(0)).await?;
    world
        .picture("3 scaled down, one published", |now| {
            endpoints(now, "web") == 1
                && now.all(SLICES).iter().any(|slice| {
                    text(slice, "/metadata/labels/kubernetes.io~1service-name") == "headless"
                        && slice["endpoints"][0]["conditions"]["ready"] == true
                })
        })
        .await?;
    world.delete("services", "web", "Background").await?;
    world
        .picture("4 a service is deleted", |now| now.all(SLICES).len() == 2)
        .await
}

async fn deletion(world: &mut World) -> Result<(), String> {
    for policy in ["Background", "Foreground", "Orphan"] {
        let name = policy.to_ascii_lowercase();
        world.create(DEPLOYMENTS, &deployment(&name, 1)).await?;
    }
    let available = |now: &Picture, name: &str| now.at(DEPLOYMENTS, name, "/status/availableReplicas") == 1;
    world
        .picture("1 created", |now| {
            ["background", "foreground", "orphan"]
                .into_iter()
                .all(|name| available(now, name))
        })
        .await?;
    for (number, policy, pods) in [(2, "Background", 2), (3, "Foreground", 1), (4, "Orphan", 1)] {
        let name = policy.to_ascii_lowercase();
        world.delete(DEPLOYMENTS, &name, policy).await?;
        world
            .picture(&format!("{number} {policy}"), |now| {
                now.at(DEPLOYMENTS, &name, "/kind").is_null() && now.all("pods").len() == pods
            })
            .await?;
    }
    let set = only_name(world, REPLICA_SETS).await?;
    // A deletion that waits for what blocks it.
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    let pod = only_name(world, "pods").await?;
    world.patch("pods", &pod, &held).await?;
    world.delete(REPLICA_SETS, &set, "Foreground").await?;
    world
        .picture("5 held by a finalizer", |now| {
            !now.at(REPLICA_SETS, &set, "/metadata/deletionTimestamp")
                .is_null()
                && !now.at("pods", &pod, "/metadata/deletionTimestamp").is_null()
        })
        .await?;
    let free = json!({ "metadata": { "finalizers": null } });
    world.patch("pods", &pod, &free).await?;
    world
        .picture("6 released", |now| {
            now.all("pods").is_empty() && now.all(REPLICA_SETS).is_empty()
        })
        .await
}

/// The name of the only object of a resource.
async fn only_name(world: &World, resource: &str) -> Result<String, String> {
    let objects = world.list(resource).await?;
    match &objects[..] {
        [one] => Ok(text(one, "/metadata/name").to_owned()),
        several => Err(format!("{} {resource} instead of one", several.len())),
    }
}
