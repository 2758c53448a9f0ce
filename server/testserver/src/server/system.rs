//! The objects that every cluster has from the start.

use serde_json::{Value, json};

use super::TestServer;
use crate::auth::rbac;

impl TestServer {
    /// Creates the objects that a real server creates when it starts, as far as they are missing: the system namespaces,
    /// the Service `default/kubernetes` with its EndpointSlice, the system PriorityClasses and the ComponentStatuses, all of
    /// which are healthy; with [RBAC](crate::TestServerBuilder::rbac) the default roles and bindings. The program does this.
    pub fn create_system_objects(&self) {
        let roles = if self.state.config.rbac {
            rbac::bootstrap()
        } else {
            &[]
        };
        for object in system_objects().into_iter().chain(roles.iter().cloned()) {
            let missing = self.try_create(object);
            debug_assert!(
                missing
                    .as_ref()
                    .err()
                    .is_none_or(|error| error.reason() == "AlreadyExists"),
                "{missing:?}"
            );
        }
    }
}

fn system_objects() -> Vec<Value> {
    let mut objects: Vec<Value> = ["default", "kube-node-lease", "kube-public", "kube-system"]
        .into_iter()
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
        .collect();
    objects.extend(
        ["controller-manager", "etcd-0", "scheduler"]
            .into_iter()
            .map(|name| {
                json!({
                    "apiVersion": "v1",
                    "kind": "ComponentStatus",
                    "metadata": { "name": name },
                    "conditions": [{ "type": "Healthy", "status": "True", "message": "ok" }],
                })
            }),
    );
    let labels = json!({ "component": "apiserver", "provider": "kubernetes" });
    objects.push(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "namespace": "default", "name": "kubernetes", "labels": labels },
        "spec": {
            "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443 }],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": { "loadBalancer": {} },
    }));
    objects.push(json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": "default",
            "name": "kubernetes",
            "labels": { "kubernetes.io/service-name": "kubernetes" },
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["127.0.0.1"], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "port": 6443, "protocol": "TCP" }],
    }));
    for (name, value, meaning) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        objects.push(json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": { "name": name },
            "value": value,
            "description": meaning,
            "preemptionPolicy": "PreemptLowerPriority",
        }));
    }
    objects
}
