//! Known differences from a real server, with reasons.

use super::Known;

const fn known(exchange: &'static str, at: &'static str, reason: &'static str) -> Known {
    Known { exchange, at, reason }
}

const COLUMNS: &str = "columns are described by their names, without the sentences of the API documentation";
const YAML_PARSER: &str = "the message is that of Go's YAML parser";
const AT_ONCE_GONE: &str = "a namespace is emptied and removed at once, which the real server leaves to controllers that do not run here";
const BUILD: &str = "describes the build of the server";
const CONSTANTS: &str = "constant parts of rules are not evaluated in advance";
const OTHER_VERSIONS: &str = "the fields of managers that use another version are not converted";

pub(crate) const KNOWN: &[Known] = &[
    known("applied/yaml that is none", "body/message", YAML_PARSER),
    known("*", "body/columnDefinitions/*/description", COLUMNS),
    known("*", "body/*/object/columnDefinitions/*/description", COLUMNS),
    known("rules/constant: *", "", CONSTANTS),
    known("conversion/*", "body/metadata/managedFields/1", OTHER_VERSIONS),
    known("workloads/nothing is made in it", "", AT_ONCE_GONE),
    known("discovery/the version of the server", "body/compiler", BUILD),
    known("discovery/the version of the server", "body/gitCommit", BUILD),
    known("discovery/the version of the server", "body/gitTreeState", BUILD),
    known("discovery/the version of the server", "body/goVersion", BUILD),
    known("discovery/the version of the server", "body/platform", BUILD),
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
];
