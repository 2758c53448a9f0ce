//! Objects of a few kinds as values of `k8s-openapi`. `all_kinds.rs` has the others.

use crate::checks;
use crate::common::typed;

#[test]
fn objects_of_common_kinds_are_equal_as_typed_values() {
    let checks = checks! {
        k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration, false;
        k8s_openapi::api::apps::v1::ControllerRevision, false;
        k8s_openapi::api::apps::v1::Deployment, false;
        k8s_openapi::api::authentication::v1::TokenReview, false;
        k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler, false;
        k8s_openapi::api::batch::v1::CronJob, false;
        k8s_openapi::api::certificates::v1::CertificateSigningRequest, false;
        k8s_openapi::api::coordination::v1::Lease, true;
        k8s_openapi::api::core::v1::ConfigMap, true;
        k8s_openapi::api::core::v1::Event, false;
        k8s_openapi::api::core::v1::Namespace, false;
        k8s_openapi::api::core::v1::Node, false;
        k8s_openapi::api::core::v1::PersistentVolumeClaim, false;
        k8s_openapi::api::core::v1::Pod, true;
        k8s_openapi::api::core::v1::ResourceQuota, false;
        k8s_openapi::api::core::v1::Secret, false;
        k8s_openapi::api::core::v1::Service, false;
        k8s_openapi::api::discovery::v1::EndpointSlice, false;
        k8s_openapi::api::events::v1::Event, false;
        k8s_openapi::api::networking::v1::Ingress, false;
        k8s_openapi::api::networking::v1::NetworkPolicy, false;
        k8s_openapi::api::policy::v1::PodDisruptionBudget, false;
        k8s_openapi::api::rbac::v1::ClusterRole, false;
        k8s_openapi::api::storage::v1::StorageClass, false;
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition, false;
        k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService, false;
    };
    typed::run(&checks, 80);
}
