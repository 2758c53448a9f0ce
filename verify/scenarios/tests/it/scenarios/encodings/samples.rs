//! One object of most kinds, with fields of every sort: quantities, times, bytes, maps, pointers to zero.

use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::scenarios::support::send;

type Failure = Box<dyn std::error::Error + Send + Sync>;

pub fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "sample"}}, "spec": pod_spec()})
}

fn pod_spec() -> Value {
    json!({
        "terminationGracePeriodSeconds": 30,
        "serviceAccountName": "default",
        "automountServiceAccountToken": false,
        "securityContext": {"runAsUser": 0, "fsGroup": 1000, "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}]},
        "tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
        "nodeSelector": {"kubernetes.io/os": "linux", "empty": ""},
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
            "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchExpressions": [
                {"key": "app", "operator": "In", "values": ["a", "b"]}]}}}]}},
        "volumes": [
            {"name": "empty", "emptyDir": {}},
            {"name": "limited", "emptyDir": {"sizeLimit": "1500Mi", "medium": "Memory"}},
            {"name": "token", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                {"downwardAPI": {"items": [{"path": "cpu", "resourceFieldRef": {"containerName": "main",
                    "resource": "limits.cpu", "divisor": "1m"}}]}}]}},
        ],
        "initContainers": [{"name": "first", "image": "example.com/first:1", "restartPolicy": "Always"}],
        "containers": [{
            "name": "main", "image": "example.com/main:1", "stdin": true,
            "args": ["", "--text=ä€𝄞"],
            "env": [{"name": "EMPTY"}, {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": {"requests": {"cpu": "0.1", "memory": "1000Ki"}, "limits": {"cpu": "1500m", "memory": "2G"}},
            "ports": [{"containerPort": 80, "name": "http"}],
            "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "initialDelaySeconds": 0},
            "readinessProbe": {"tcpSocket": {"port": 80}},
            "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
            "securityContext": {"capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": false},
        }],
    })
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "sample"}, "annotations": {"empty": ""}}, "spec": pod_spec()})
}

fn job_spec() -> Value {
    let mut template = template();
    template["spec"]["restartPolicy"] = "Never".into();
    json!({"backoffLimit": 0, "parallelism": 0, "template": template, "podFailurePolicy": {"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}})
}

/// Path and body of each sample. `NS` in a path is the namespace.
fn samples() -> Vec<(&'static str, Value)> {
    let selector = json!({"matchLabels": {"app": "sample"}});
    let workload = json!({"replicas": 0, "selector": selector, "template": template()});
    let mut stateful = workload.clone();
    stateful["serviceName"] = "sample".into();
    stateful["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let mut daemon = workload.clone();
    daemon.as_object_mut().map(|spec| spec.remove("replicas"));
    let mut controller = workload.clone();
    controller["selector"] = json!({"app": "sample"});
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]});
    let subject = json!({"kind": "User", "name": "someone", "apiGroup": "rbac.authorization.k8s.io"});
    let role = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "sample"});
    let webhook = json!([{"name": "sample.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore", "clientConfig": {"url": "https://127.0.0.1:1/none"},
        "namespaceSelector": {"matchLabels": {"never": "selected"}},
        "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"]}]}]);
    vec![
        ("/api/v1/namespaces/NS/pods", json!({"spec": pod_spec()})),
        (
            "/api/v1/namespaces/NS/configmaps",
            json!({"data": {"a": "", "b": "text"}, "binaryData": {"c": "AAEC/w=="}}),
        ),
        (
            "/api/v1/namespaces/NS/secrets",
            json!({"data": {"a": "", "b": "dGV4dA=="}, "immutable": false}),
        ),
        (
            "/api/v1/namespaces/NS/services",
            json!({"spec": {"clusterIP": "None", "ports": [{"port": 80, "name": "http", "targetPort": "http"}, {"port": 81, "name": "other", "targetPort": 8081}]}}),
        ),
        (
            "/api/v1/namespaces/NS/endpoints",
            json!({"subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]}),
        ),
        (
            "/api/v1/namespaces/NS/events",
            json!({"involvedObject": {"namespace": "NS", "name": "x"}, "reason": "Sample", "firstTimestamp": "1970-01-01T00:00:00Z", "lastTimestamp": null, "eventTime": "2026-01-02T03:04:05.000600Z", "action": "Test", "reportingComponent": "example.com/sample", "reportingInstance": "one", "type": "Normal"}),
        ),
        (
            "/api/v1/namespaces/NS/limitranges",
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "0.5"}}]}}),
        ),
        (
            "/api/v1/namespaces/NS/resourcequotas",
            json!({"spec": {"hard": {"pods": "1k", "requests.storage": "1Ti"}}}),
        ),
        (
            "/api/v1/namespaces/NS/serviceaccounts",
            json!({"automountServiceAccountToken": false}),
        ),
        (
            "/api/v1/namespaces/NS/podtemplates",
            json!({"template": template()}),
        ),
        (
            "/api/v1/namespaces/NS/replicationcontrollers",
            json!({"spec": controller}),
        ),
        (
            "/api/v1/namespaces/NS/persistentvolumeclaims",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "0.5Gi"}}}}),
        ),
        (
            "/api/v1/persistentvolumes",
            json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "nfs": {"server": "192.0.2.1", "path": "/"}}}),
        ),
        (
            "/api/v1/nodes",
            json!({"spec": {"podCIDR": "192.0.2.0/24", "taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"}]}, "status": {"capacity": {"cpu": "4", "memory": "16Gi"}, "nodeInfo": {}}}),
        ),
        (
            "/apis/apps/v1/namespaces/NS/deployments",
            json!({"spec": {"replicas": 0, "selector": selector, "template": template(), "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}}}),
        ),
        (
            "/apis/apps/v1/namespaces/NS/replicasets",
            json!({"spec": workload}),
        ),
        (
            "/apis/apps/v1/namespaces/NS/statefulsets",
            json!({"spec": stateful}),
        ),
        ("/apis/apps/v1/namespaces/NS/daemonsets", json!({"spec": daemon})),
        (
            "/apis/apps/v1/namespaces/NS/controllerrevisions",
            json!({"revision": 1, "data": {"spec": {"a": [1, 2.5, null, "x"]}}}),
        ),
        ("/apis/batch/v1/namespaces/NS/jobs", json!({"spec": job_spec()})),
        (
            "/apis/batch/v1/namespaces/NS/cronjobs",
            json!({"spec": {"schedule": "0 0 1 1 *", "suspend": true, "startingDeadlineSeconds": 0, "jobTemplate": {"spec": job_spec()}}}),
        ),
        (
            "/apis/autoscaling/v2/namespaces/NS/horizontalpodautoscalers",
            json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "sample", "apiVersion": "apps/v1"}, "maxReplicas": 3, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}, {"type": "Pods", "pods": {"metric": {"name": "rate", "selector": {}}, "target": {"type": "AverageValue", "averageValue": "1500m"}}}]}}),
        ),
        (
            "/apis/policy/v1/namespaces/NS/poddisruptionbudgets",
            json!({"spec": {"maxUnavailable": "50%", "selector": selector}}),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/NS/networkpolicies",
            json!({"spec": {"podSelector": {}, "ingress": [{}], "egress": [{"ports": [{"port": 53, "protocol": "UDP"}], "to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}], "policyTypes": ["Ingress", "Egress"]}}),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/NS/ingresses",
            json!({"spec": {"rules": [{"host": "example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "sample", "port": {"number": 80}}}}]}}]}}),
        ),
        (
            "/apis/networking.k8s.io/v1/ingressclasses",
            json!({"spec": {"controller": "example.com/sample"}}),
        ),
        (
            "/apis/networking.k8s.io/v1/servicecidrs",
            json!({"spec": {"cidrs": ["192.0.2.0/24"]}}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/NS/leases",
            json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.123456Z"}}),
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/NS/endpointslices",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": false}}], "ports": [{"port": 0}]}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/NS/roles",
            json!({"rules": [rule]}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/NS/rolebindings",
            json!({"roleRef": role("Role"), "subjects": [subject]}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({"rules": [rule, {"nonResourceURLs": ["/healthz"], "verbs": ["get"]}], "aggregationRule": null}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            json!({"roleRef": role("ClusterRole"), "subjects": [subject]}),
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            json!({"value": -7, "preemptionPolicy": "Never"}),
        ),
        (
            "/apis/node.k8s.io/v1/runtimeclasses",
            json!({"handler": "sample", "overhead": {"podFixed": {"cpu": "250m"}}}),
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"provisioner": "example.com/sample", "parameters": {"a": ""}, "allowVolumeExpansion": false, "mountOptions": ["ro"]}),
        ),
        (
            "/apis/storage.k8s.io/v1/csidrivers",
            json!({"spec": {"attachRequired": false, "volumeLifecycleModes": ["Ephemeral"]}}),
        ),
        (
            "/apis/storage.k8s.io/v1/volumeattachments",
            json!({"spec": {"attacher": "sample.example.com", "nodeName": "sample", "source": {"persistentVolumeName": "sample"}}}),
        ),
        (
            "/apis/storage.k8s.io/v1/namespaces/NS/csistoragecapacities",
            json!({"storageClassName": "sample", "capacity": "100Gi", "nodeTopology": {}}),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            json!({"webhooks": webhook}),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            json!({"webhooks": webhook}),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            json!({"spec": {"failurePolicy": "Ignore", "matchConstraints": {"resourceRules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"]}]}, "validations": [{"expression": "true"}]}}),
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
            json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}}}),
        ),
        (
            "/apis/resource.k8s.io/v1/deviceclasses",
            json!({"spec": {"selectors": [{"cel": {"expression": "true"}}], "config": [{"opaque": {"driver": "example.com", "parameters": {"a": {"b": [1]}}}}]}}),
        ),
        (
            "/apis/resource.k8s.io/v1/namespaces/NS/resourceclaims",
            json!({"spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "sample", "allocationMode": "ExactCount", "count": 1}}]}}}),
        ),
    ]
}

/// Creates the samples, and returns the number of those that the server accepted.
pub async fn create(client: &Client, namespace: &str) -> Result<usize, Failure> {
    let mut created = 0;
    for (path, mut body) in samples() {
        let path = path.replace("NS", namespace);
        let name = match path.ends_with("/csidrivers") {
            true => "sample.example.com",
            false => "sample",
        };
        body["metadata"]["name"] = name.into();
        body["metadata"]["annotations"] = json!({"example.com/empty": ""});
        if let Some(involved) = body.get_mut("involvedObject") {
            involved["namespace"] = namespace.into();
        }
        let response = send(client, Method::POST, &path, &body).await?;
        match response.code {
            201 => created += 1,
            // Another version of the server may have other rules.
            _ => println!("rejected: {path}: {}", response.text_at("/message")),
        }
    }
    define_gadgets(client, &format!("{namespace}.example.com")).await?;
    Ok(created + 1)
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Defines a custom kind, with a schema that has every form of the schema language. Returns the path of its objects.
pub async fn define_gadgets(client: &Client, group: &str) -> Result<String, Failure> {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 1e3, "default": 1},
            "ratio": {"type": "number", "multipleOf": 0.5},
            "names": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": []},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "port": {"x-kubernetes-int-or-string": true},
        },
    }}});
    let definition = json!({
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let response = send(client, Method::POST, DEFINITIONS, &definition).await?;
    assert_eq!(response.code, 201, "{}", response.text);
    Ok(format!("/apis/{group}/v1/gadgets"))
}

/// Removes the kind.
pub async fn remove_gadgets(client: &Client, group: &str) -> Result<(), Failure> {
    let path = format!("{DEFINITIONS}/gadgets.{group}");
    let response = send(client, Method::DELETE, &path, &Value::Null).await?;
    assert_eq!(response.code, 200, "{}", response.text);
    Ok(())
}
