//! Known differences from a real server, with reasons.

use super::Known;

const fn known(exchange: &'static str, at: &'static str, reason: &'static str) -> Known {
    Known { exchange, at, reason }
}

const COLUMNS: &str = "columns are described by their names, without the sentences of the API documentation";
const GO: &str = "the message is that of Go's JSON decoder or type system";
const AT_ONCE: &str =
    "a definition is served at once; a real server's controllers accept its names a moment later";
const AT_ONCE_GONE: &str = "a namespace is emptied and removed at once, which the real server leaves to controllers that do not run here";
const BUILD: &str = "describes the build of the server";
const HASH: &str = "the hash identifies a storage format";
const YAML_ERRORS: &str = "errors are always JSON";

const WARNINGS: &str = "no warnings about discouraged fields";
const CERTIFICATES: &str = "the content of certificates is not checked";
const PHASES: &str = "the phases of volumes are not timed";
const FLOWS: &str = "a real server's controller sets the status of flow schemas";
const GO_STRUCT: &str = "the rejected value is printed as a Go struct, in the order of its fields";
const GO_DIFF: &str = "a real server appends a diff of the two Go structs";
const RULE: &str = "this rule is not checked";
const PATCHED_TYPE: &str =
    "a patch that yields a wrong type is rejected as invalid, with the whole object in the message";

const KEPT: &str = "no warnings about stored values that break a newer rule";
const CONSTANTS: &str = "constant parts of rules are not evaluated in advance";
const OTHER_VERSIONS: &str = "the fields of managers that use another version are not converted";

pub(crate) const KNOWN: &[Known] = &[
    known("applied/define", "body/status", AT_ONCE),
    known(
        "applied/yaml with a field twice",
        "",
        "YAML with the same field twice is refused; a real server takes the second, with a warning",
    ),
    known("applied/yaml that is none", "body/message", GO),
    known("ephemeral/change *", "body", GO_DIFF),
    known("ephemeral/merge patch that removes and changes", "body", GO_DIFF),
    known("ephemeral/through the pod", "body", GO_DIFF),
    known("ephemeral/put of another kind", "body/message", GO),
    known("*", "body/columnDefinitions/*/description", COLUMNS),
    known("*", "body/*/object/columnDefinitions/*/description", COLUMNS),
    known(
        "bookmarks/daemonsets",
        "body/0/object/metadata/annotations/deprecated.daemonset.template.generation",
        "the annotation is added by the conversion from a version that no longer exists",
    ),
    known("rules/define", "body/status", AT_ONCE),
    known("rules/ratchet: define", "body/status", AT_ONCE),
    known(
        "rules/ratchet: stricter rules",
        "body/metadata/managedFields",
        AT_ONCE,
    ),
    known("rules/ratchet: *", "headers/warning", KEPT),
    known("rules/functions: define*", "body/status", AT_ONCE),
    known("rules/constant: *", "", CONSTANTS),
    known("costs/*", "body/status", AT_ONCE),
    known("conversion/define*", "body/status", AT_ONCE),
    known("conversion/*", "body/metadata/managedFields/1", OTHER_VERSIONS),
    known(
        "escalation/jane writes an empty role",
        "body/metadata/managedFields",
        "an empty list of rules has no manager",
    ),
    known("custom/define", "body/status", AT_ONCE),
    known("custom/the definition", "body/metadata/managedFields", AT_ONCE),
    known(
        "custom/resources of the group",
        "body/resources/*/storageVersionHash",
        HASH,
    ),
    known("discovery/workloads", "body/resources/*/storageVersionHash", HASH),
    known("discovery/jobs", "body/resources/*/storageVersionHash", HASH),
    known(
        "discovery/definitions",
        "body/resources/*/storageVersionHash",
        HASH,
    ),
    known("workloads/a namespace goes", "body/metadata", AT_ONCE_GONE),
    known("workloads/nothing is made in it", "", AT_ONCE_GONE),
    known(
        "discovery/one group and version",
        "body/resources/*/storageVersionHash",
        HASH,
    ),
    known("discovery/the version of the server", "body/compiler", BUILD),
    known("discovery/the version of the server", "body/gitCommit", BUILD),
    known("discovery/the version of the server", "body/gitTreeState", BUILD),
    known("discovery/the version of the server", "body/goVersion", BUILD),
    known("discovery/the version of the server", "body/platform", BUILD),
    known("objects/create another kind", "body/message", GO),
    known("objects/create another version", "body/message", GO),
    known("objects/create from an empty body", "body/message", GO),
    known("objects/create from half a body", "body/message", GO),
    known("objects/create from a list", "body/message", GO),
    known("patches/merge that is no object", "body/message", GO),
    known("patches/json that is none", "body/message", GO),
    known("objects/get as yaml", "headers/content-type", YAML_ERRORS),
    known("objects/get as yaml", "body", YAML_ERRORS),
    known("watches/yaml", "headers/content-type", YAML_ERRORS),
    known("watches/yaml", "body", YAML_ERRORS),
    known(
        "overload/one too many",
        "headers/x-kubernetes-pf-flowschema-uid",
        "the real server had its queues switched off to be overloaded more easily",
    ),
    known(
        "overload/one too many",
        "headers/x-kubernetes-pf-prioritylevel-uid",
        "the real server had its queues switched off to be overloaded more easily",
    ),
    known("schemas/define", "body/status", AT_ONCE),
    known("invalid/strategy", "body", GO_STRUCT),
    known("invalid/daemon set strategy", "body", GO_STRUCT),
    known("invalid/service duplicate ports", "body", GO_STRUCT),
    known("invalid/budget both", "body", GO_STRUCT),
    known("invalid/selector without values", "body", GO_STRUCT),
    known("invalid/change template of a job to OnFailure", "body", GO_STRUCT),
    known("invalid/change restartPolicy of a pod to Never", "body", GO_DIFF),
    known("invalid/change nodeName of a pod to n", "body", GO_DIFF),
    known("invalid/change accessModes of a claim", "body", GO_DIFF),
    known("invalid/change replicas of a deployment to x", "", PATCHED_TYPE),
    known("invalid/change data a of a config map to 1", "", PATCHED_TYPE),
    known(
        "invalid/job selector",
        "body",
        "a real server adds its own labels before it rejects the selector",
    ),
    known("invalid/cron job time zone", "", RULE),
    known(
        "invalid/change uid of a config map to other",
        "",
        "a patch of the uid is rejected as a conflict, as an update is",
    ),
    known(
        "manifests/service with external address",
        "headers/warning",
        WARNINGS,
    ),
    known("manifests/secret tls", "headers/warning", CERTIFICATES),
    known("manifests/volume*", "body/status/lastPhaseTransitionTime", PHASES),
    known("manifests/priority level", "", RULE),
    known("protobuf/create priority level", "", RULE),
    known(
        "protobuf/create service with external address",
        "headers/warning",
        WARNINGS,
    ),
    known("protobuf/create secret tls", "headers/warning", CERTIFICATES),
    known(
        "protobuf/create volume*",
        "body/status/lastPhaseTransitionTime",
        PHASES,
    ),
    known(
        "protobuf/get volume",
        "body/status/lastPhaseTransitionTime",
        PHASES,
    ),
    known(
        "protobuf/list persistentvolumes",
        "body/items/0/status/lastPhaseTransitionTime",
        PHASES,
    ),
    known(
        "protobuf/list metadata of daemonsets",
        "body/items/0/metadata/annotations",
        "the annotation is added by the conversion from a version that no longer exists",
    ),
    known("protobuf/get flow schema", "body", FLOWS),
    known("protobuf/list flowschemas", "body", FLOWS),
    known("protobuf/list metadata of flowschemas", "body", FLOWS),
    known("protobuf/another kind", "body/message", GO),
    known("protobuf/define a kind", "body/status", AT_ONCE),
    known(
        "protobuf/definition in protobuf",
        "body/metadata/managedFields",
        AT_ONCE,
    ),
];
