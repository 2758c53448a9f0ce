//! Accessors for every built-in kind, as in Go: `factory.core().v1().pods()`. One table, and the macro that expands it.
//!
//! A row is *typed* (an [`Informer`] of the type in `k8s-openapi`, in the Kubernetes versions that have it) or
//! *dynamic* (versions of an API that `k8s-openapi` has no types for: an `Informer<DynamicObject>`). Kinds that
//! client-go has and the table lacks are in `ABSENT`, with the reason.
//!
//! Every accessor is `#[inline]`: a plain method would compile a whole informer for each of these types into the
//! library, whether it is called or not.

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

use super::SharedInformerFactory;
use crate::informer::Informer;
use crate::source::ResourceType;

/// A built-in kind, independent of the Kubernetes version that is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Builtin {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) namespaced: bool,
}

impl Builtin {
    pub(super) fn resource(&self) -> ResourceType {
        let kind = GroupVersionKind::gvk(self.group, self.version, self.kind);
        let api = ApiResource::from_gvk_with_plural(&kind, self.plural);
        ResourceType::from(api).namespaced(self.namespaced)
    }
}

/// The built-in kind of this group, version and plural name.
pub(super) fn builtin(group: &str, version: &str, plural: &str) -> Option<&'static Builtin> {
    BUILTINS
        .iter()
        .find(|row| row.group == group && row.version == version && row.plural == plural)
}

/// Kinds that client-go has an accessor for and we do not: group, version, plural name, reason.
pub(super) const ABSENT: &[(&str, &str, &str, &str)] = &[(
    "",
    "v1",
    "componentstatuses",
    "it can be listed but not watched, and is deprecated since Kubernetes 1.19",
)];

/// Items that exist only when compiled for some Kubernetes versions.
macro_rules! when {
    ([] $($item:tt)*) => { $($item)* };
    ([from 34] $($item:tt)*) => { k8s_openapi::k8s_if_ge_1_34! { $($item)* } };
    ([from 35] $($item:tt)*) => { k8s_openapi::k8s_if_ge_1_35! { $($item)* } };
    ([from 36] $($item:tt)*) => { k8s_openapi::k8s_if_ge_1_36! { $($item)* } };
    ([from 37] $($item:tt)*) => { k8s_openapi::k8s_if_ge_1_37! { $($item)* } };
    ([to 33] $($item:tt)*) => { k8s_openapi::k8s_if_le_1_33! { $($item)* } };
    ([to 34] $($item:tt)*) => { k8s_openapi::k8s_if_le_1_34! { $($item)* } };
    ([to 35] $($item:tt)*) => { k8s_openapi::k8s_if_le_1_35! { $($item)* } };
    ([to 36] $($item:tt)*) => { k8s_openapi::k8s_if_le_1_36! { $($item)* } };
    ([from $from:tt to $to:tt] $($item:tt)*) => { when! { [from $from] when! { [to $to] $($item)* } } };
}

/// One accessor.
macro_rules! accessor {
    ([$($module:ident)::+] $group:literal $version:ident
     $method:ident $kind:ident $plural:literal $scope:ident [typed $($when:tt)*]) => {
        when! { [$($when)*]
            #[doc = concat!("The informer of `", $plural, "`.")]
            #[inline]
            pub fn $method(&self) -> Informer<k8s_openapi::$($module)::+::$kind> {
                self.factory.informer()
            }
        }
    };
    ([$($module:ident)::+] $group:literal $version:ident
     $method:ident $kind:ident $plural:literal $scope:ident [dynamic]) => {
        #[doc = concat!("The informer of `", $plural, "`, as dynamic objects: `k8s-openapi` has no type for them.")]
        #[inline]
        pub fn $method(&self) -> Informer<DynamicObject> {
            self.factory.dynamic(row!($group $version $kind $plural $scope).resource())
        }
    };
}

macro_rules! row {
    ($group:literal $version:ident $kind:ident $plural:literal $scope:ident) => {
        Builtin {
            group: $group,
            version: stringify!($version),
            kind: stringify!($kind),
            plural: $plural,
            namespaced: row!($scope),
        }
    };
    (namespaced) => {
        true
    };
    (cluster) => {
        false
    };
}

macro_rules! accessors {
    ($(
        $group:ident $group_type:ident $group_name:literal {
            $( $version:ident $version_type:ident $module:tt {
                $( $method:ident $kind:ident $plural:literal $scope:ident $form:tt; )+
            } )+
        }
    )+) => {
        impl SharedInformerFactory {
            $(
                #[doc = concat!("The kinds of the API group `", $group_name, "`.")]
                #[inline]
                pub fn $group(&self) -> $group_type {
                    $group_type { factory: self.clone() }
                }
            )+
        }

        $(
            #[doc = concat!("The versions of the API group `", $group_name, "`.")]
            #[derive(Clone, Debug)]
            pub struct $group_type {
                factory: SharedInformerFactory,
            }

            impl $group_type {
                $(
                    #[doc = concat!("Its version `", stringify!($version), "`.")]
                    #[inline]
                    pub fn $version(&self) -> $version_type {
                        $version_type { factory: self.factory.clone() }
                    }
                )+
            }

            $(
                #[doc = concat!("The kinds of `", $group_name, "` in version `", stringify!($version), "`.")]
                #[derive(Clone, Debug)]
                pub struct $version_type {
                    #[allow(dead_code, reason = "some Kubernetes versions have none of its kinds")]
                    factory: SharedInformerFactory,
                }

                impl $version_type {
                    $( accessor! { $module $group_name $version $method $kind $plural $scope $form } )+
                }
            )+
        )+

        /// All rows, whatever version is compiled for.
        pub(super) const BUILTINS: &[Builtin] = &[
            $( $( $( row!($group_name $version $kind $plural $scope), )+ )+ )+
        ];
    };
}

accessors! {
    admissionregistration Admissionregistration "admissionregistration.k8s.io" {
        v1 AdmissionregistrationV1 [api::admissionregistration::v1] {
            mutating_admission_policies MutatingAdmissionPolicy "mutatingadmissionpolicies" cluster [typed from 36];
            mutating_admission_policy_bindings MutatingAdmissionPolicyBinding "mutatingadmissionpolicybindings" cluster [typed from 36];
            mutating_webhook_configurations MutatingWebhookConfiguration "mutatingwebhookconfigurations" cluster [typed];
            validating_admission_policies ValidatingAdmissionPolicy "validatingadmissionpolicies" cluster [typed];
            validating_admission_policy_bindings ValidatingAdmissionPolicyBinding "validatingadmissionpolicybindings" cluster [typed];
            validating_webhook_configurations ValidatingWebhookConfiguration "validatingwebhookconfigurations" cluster [typed];
        }
        v1beta1 AdmissionregistrationV1beta1 [api::admissionregistration::v1beta1] {
            mutating_admission_policies MutatingAdmissionPolicy "mutatingadmissionpolicies" cluster [typed from 34];
            mutating_admission_policy_bindings MutatingAdmissionPolicyBinding "mutatingadmissionpolicybindings" cluster [typed from 34];
            mutating_webhook_configurations MutatingWebhookConfiguration "mutatingwebhookconfigurations" cluster [dynamic];
            validating_admission_policies ValidatingAdmissionPolicy "validatingadmissionpolicies" cluster [typed to 33];
            validating_admission_policy_bindings ValidatingAdmissionPolicyBinding "validatingadmissionpolicybindings" cluster [typed to 33];
            validating_webhook_configurations ValidatingWebhookConfiguration "validatingwebhookconfigurations" cluster [dynamic];
        }
        v1alpha1 AdmissionregistrationV1alpha1 [api::admissionregistration::v1alpha1] {
            mutating_admission_policies MutatingAdmissionPolicy "mutatingadmissionpolicies" cluster [typed];
            mutating_admission_policy_bindings MutatingAdmissionPolicyBinding "mutatingadmissionpolicybindings" cluster [typed];
            validating_admission_policies ValidatingAdmissionPolicy "validatingadmissionpolicies" cluster [dynamic];
            validating_admission_policy_bindings ValidatingAdmissionPolicyBinding "validatingadmissionpolicybindings" cluster [dynamic];
        }
    }
    apiextensions Apiextensions "apiextensions.k8s.io" {
        v1 ApiextensionsV1 [apiextensions_apiserver::pkg::apis::apiextensions::v1] {
            custom_resource_definitions CustomResourceDefinition "customresourcedefinitions" cluster [typed];
        }
    }
    apiregistration Apiregistration "apiregistration.k8s.io" {
        v1 ApiregistrationV1 [kube_aggregator::pkg::apis::apiregistration::v1] {
            api_services APIService "apiservices" cluster [typed];
        }
    }
    apps Apps "apps" {
        v1 AppsV1 [api::apps::v1] {
            controller_revisions ControllerRevision "controllerrevisions" namespaced [typed];
            daemon_sets DaemonSet "daemonsets" namespaced [typed];
            deployments Deployment "deployments" namespaced [typed];
            replica_sets ReplicaSet "replicasets" namespaced [typed];
            stateful_sets StatefulSet "statefulsets" namespaced [typed];
        }
        v1beta2 AppsV1beta2 [api] {
            controller_revisions ControllerRevision "controllerrevisions" namespaced [dynamic];
            daemon_sets DaemonSet "daemonsets" namespaced [dynamic];
            deployments Deployment "deployments" namespaced [dynamic];
            replica_sets ReplicaSet "replicasets" namespaced [dynamic];
            stateful_sets StatefulSet "statefulsets" namespaced [dynamic];
        }
        v1beta1 AppsV1beta1 [api] {
            controller_revisions ControllerRevision "controllerrevisions" namespaced [dynamic];
            deployments Deployment "deployments" namespaced [dynamic];
            stateful_sets StatefulSet "statefulsets" namespaced [dynamic];
        }
    }
    autoscaling Autoscaling "autoscaling" {
        v2 AutoscalingV2 [api::autoscaling::v2] {
            horizontal_pod_autoscalers HorizontalPodAutoscaler "horizontalpodautoscalers" namespaced [typed];
        }
        v1 AutoscalingV1 [api::autoscaling::v1] {
            horizontal_pod_autoscalers HorizontalPodAutoscaler "horizontalpodautoscalers" namespaced [typed];
        }
    }
    batch Batch "batch" {
        v1 BatchV1 [api::batch::v1] {
            cron_jobs CronJob "cronjobs" namespaced [typed];
            jobs Job "jobs" namespaced [typed];
        }
        v1beta1 BatchV1beta1 [api] {
            cron_jobs CronJob "cronjobs" namespaced [dynamic];
        }
    }
    certificates Certificates "certificates.k8s.io" {
        v1 CertificatesV1 [api::certificates::v1] {
            certificate_signing_requests CertificateSigningRequest "certificatesigningrequests" cluster [typed];
            cluster_trust_bundles ClusterTrustBundle "clustertrustbundles" cluster [typed from 37];
            pod_certificate_requests PodCertificateRequest "podcertificaterequests" namespaced [typed from 37];
        }
        v1beta1 CertificatesV1beta1 [api::certificates::v1beta1] {
            certificate_signing_requests CertificateSigningRequest "certificatesigningrequests" cluster [dynamic];
            cluster_trust_bundles ClusterTrustBundle "clustertrustbundles" cluster [typed];
            pod_certificate_requests PodCertificateRequest "podcertificaterequests" namespaced [typed from 35];
        }
        v1alpha1 CertificatesV1alpha1 [api::certificates::v1alpha1] {
            cluster_trust_bundles ClusterTrustBundle "clustertrustbundles" cluster [typed to 36];
            pod_certificate_requests PodCertificateRequest "podcertificaterequests" namespaced [typed from 34 to 34];
        }
    }
    coordination Coordination "coordination.k8s.io" {
        v1 CoordinationV1 [api::coordination::v1] {
            leases Lease "leases" namespaced [typed];
        }
        v1beta1 CoordinationV1beta1 [api::coordination::v1beta1] {
            lease_candidates LeaseCandidate "leasecandidates" namespaced [typed];
            leases Lease "leases" namespaced [dynamic];
        }
        v1alpha2 CoordinationV1alpha2 [api::coordination::v1alpha2] {
            lease_candidates LeaseCandidate "leasecandidates" namespaced [typed];
        }
    }
    core Core "" {
        v1 CoreV1 [api::core::v1] {
            config_maps ConfigMap "configmaps" namespaced [typed];
            endpoints Endpoints "endpoints" namespaced [typed];
            events Event "events" namespaced [typed];
            limit_ranges LimitRange "limitranges" namespaced [typed];
            namespaces Namespace "namespaces" cluster [typed];
            nodes Node "nodes" cluster [typed];
            persistent_volume_claims PersistentVolumeClaim "persistentvolumeclaims" namespaced [typed];
            persistent_volumes PersistentVolume "persistentvolumes" cluster [typed];
            pods Pod "pods" namespaced [typed];
            pod_templates PodTemplate "podtemplates" namespaced [typed];
            replication_controllers ReplicationController "replicationcontrollers" namespaced [typed];
            resource_quotas ResourceQuota "resourcequotas" namespaced [typed];
            secrets Secret "secrets" namespaced [typed];
            service_accounts ServiceAccount "serviceaccounts" namespaced [typed];
            services Service "services" namespaced [typed];
        }
    }
    discovery Discovery "discovery.k8s.io" {
        v1 DiscoveryV1 [api::discovery::v1] {
            endpoint_slices EndpointSlice "endpointslices" namespaced [typed];
        }
        v1beta1 DiscoveryV1beta1 [api] {
            endpoint_slices EndpointSlice "endpointslices" namespaced [dynamic];
        }
    }
    events Events "events.k8s.io" {
        v1 EventsV1 [api::events::v1] {
            events Event "events" namespaced [typed];
        }
        v1beta1 EventsV1beta1 [api] {
            events Event "events" namespaced [dynamic];
        }
    }
    extensions Extensions "extensions" {
        v1beta1 ExtensionsV1beta1 [api] {
            daemon_sets DaemonSet "daemonsets" namespaced [dynamic];
            deployments Deployment "deployments" namespaced [dynamic];
            ingresses Ingress "ingresses" namespaced [dynamic];
            network_policies NetworkPolicy "networkpolicies" namespaced [dynamic];
            replica_sets ReplicaSet "replicasets" namespaced [dynamic];
        }
    }
    flowcontrol Flowcontrol "flowcontrol.apiserver.k8s.io" {
        v1 FlowcontrolV1 [api::flowcontrol::v1] {
            flow_schemas FlowSchema "flowschemas" cluster [typed];
            priority_level_configurations PriorityLevelConfiguration "prioritylevelconfigurations" cluster [typed];
        }
        v1beta3 FlowcontrolV1beta3 [api] {
            flow_schemas FlowSchema "flowschemas" cluster [dynamic];
            priority_level_configurations PriorityLevelConfiguration "prioritylevelconfigurations" cluster [dynamic];
        }
        v1beta2 FlowcontrolV1beta2 [api] {
            flow_schemas FlowSchema "flowschemas" cluster [dynamic];
            priority_level_configurations PriorityLevelConfiguration "prioritylevelconfigurations" cluster [dynamic];
        }
        v1beta1 FlowcontrolV1beta1 [api] {
            flow_schemas FlowSchema "flowschemas" cluster [dynamic];
            priority_level_configurations PriorityLevelConfiguration "prioritylevelconfigurations" cluster [dynamic];
        }
    }
    internal Internal "internal.apiserver.k8s.io" {
        v1alpha1 InternalV1alpha1 [api::apiserverinternal::v1alpha1] {
            storage_versions StorageVersion "storageversions" cluster [typed];
        }
    }
    lifecycle Lifecycle "lifecycle.k8s.io" {
        v1alpha1 LifecycleV1alpha1 [api::lifecycle::v1alpha1] {
            eviction_requests EvictionRequest "evictionrequests" namespaced [typed from 37];
            evictions Eviction "evictions" namespaced [typed from 37];
        }
    }
    networking Networking "networking.k8s.io" {
        v1 NetworkingV1 [api::networking::v1] {
            ingress_classes IngressClass "ingressclasses" cluster [typed];
            ingresses Ingress "ingresses" namespaced [typed];
            ip_addresses IPAddress "ipaddresses" cluster [typed];
            network_policies NetworkPolicy "networkpolicies" namespaced [typed];
            service_cidrs ServiceCIDR "servicecidrs" cluster [typed];
        }
        v1beta1 NetworkingV1beta1 [api::networking::v1beta1] {
            ingress_classes IngressClass "ingressclasses" cluster [dynamic];
            ingresses Ingress "ingresses" namespaced [dynamic];
            ip_addresses IPAddress "ipaddresses" cluster [typed to 36];
            service_cidrs ServiceCIDR "servicecidrs" cluster [typed to 36];
        }
    }
    node Node "node.k8s.io" {
        v1 NodeV1 [api::node::v1] {
            runtime_classes RuntimeClass "runtimeclasses" cluster [typed];
        }
        v1beta1 NodeV1beta1 [api] {
            runtime_classes RuntimeClass "runtimeclasses" cluster [dynamic];
        }
        v1alpha1 NodeV1alpha1 [api] {
            runtime_classes RuntimeClass "runtimeclasses" cluster [dynamic];
        }
    }
    policy Policy "policy" {
        v1 PolicyV1 [api::policy::v1] {
            pod_disruption_budgets PodDisruptionBudget "poddisruptionbudgets" namespaced [typed];
        }
        v1beta1 PolicyV1beta1 [api] {
            pod_disruption_budgets PodDisruptionBudget "poddisruptionbudgets" namespaced [dynamic];
        }
    }
    rbac Rbac "rbac.authorization.k8s.io" {
        v1 RbacV1 [api::rbac::v1] {
            cluster_role_bindings ClusterRoleBinding "clusterrolebindings" cluster [typed];
            cluster_roles ClusterRole "clusterroles" cluster [typed];
            role_bindings RoleBinding "rolebindings" namespaced [typed];
            roles Role "roles" namespaced [typed];
        }
        v1beta1 RbacV1beta1 [api] {
            cluster_role_bindings ClusterRoleBinding "clusterrolebindings" cluster [dynamic];
            cluster_roles ClusterRole "clusterroles" cluster [dynamic];
            role_bindings RoleBinding "rolebindings" namespaced [dynamic];
            roles Role "roles" namespaced [dynamic];
        }
        v1alpha1 RbacV1alpha1 [api] {
            cluster_role_bindings ClusterRoleBinding "clusterrolebindings" cluster [dynamic];
            cluster_roles ClusterRole "clusterroles" cluster [dynamic];
            role_bindings RoleBinding "rolebindings" namespaced [dynamic];
            roles Role "roles" namespaced [dynamic];
        }
    }
    resource Resource "resource.k8s.io" {
        v1 ResourceV1 [api::resource::v1] {
            device_classes DeviceClass "deviceclasses" cluster [typed from 34];
            device_taint_rules DeviceTaintRule "devicetaintrules" cluster [typed from 37];
            resource_claims ResourceClaim "resourceclaims" namespaced [typed from 34];
            resource_claim_templates ResourceClaimTemplate "resourceclaimtemplates" namespaced [typed from 34];
            resource_slices ResourceSlice "resourceslices" cluster [typed from 34];
        }
        v1beta2 ResourceV1beta2 [api::resource::v1beta2] {
            device_classes DeviceClass "deviceclasses" cluster [typed];
            device_taint_rules DeviceTaintRule "devicetaintrules" cluster [typed from 36];
            resource_claims ResourceClaim "resourceclaims" namespaced [typed];
            resource_claim_templates ResourceClaimTemplate "resourceclaimtemplates" namespaced [typed];
            resource_slices ResourceSlice "resourceslices" cluster [typed];
        }
        v1beta1 ResourceV1beta1 [api::resource::v1beta1] {
            device_classes DeviceClass "deviceclasses" cluster [typed];
            resource_claims ResourceClaim "resourceclaims" namespaced [typed];
            resource_claim_templates ResourceClaimTemplate "resourceclaimtemplates" namespaced [typed];
            resource_slices ResourceSlice "resourceslices" cluster [typed];
        }
        v1alpha3 ResourceV1alpha3 [api::resource::v1alpha3] {
            device_classes DeviceClass "deviceclasses" cluster [typed to 33];
            device_taint_rules DeviceTaintRule "devicetaintrules" cluster [typed];
            resource_claims ResourceClaim "resourceclaims" namespaced [typed to 33];
            resource_claim_templates ResourceClaimTemplate "resourceclaimtemplates" namespaced [typed to 33];
            resource_pool_status_requests ResourcePoolStatusRequest "resourcepoolstatusrequests" cluster [typed from 36];
            resource_slices ResourceSlice "resourceslices" cluster [typed to 33];
        }
    }
    scheduling Scheduling "scheduling.k8s.io" {
        v1 SchedulingV1 [api::scheduling::v1] {
            priority_classes PriorityClass "priorityclasses" cluster [typed];
        }
        v1beta1 SchedulingV1beta1 [api::scheduling::v1beta1] {
            pod_groups PodGroup "podgroups" namespaced [typed from 37];
            priority_classes PriorityClass "priorityclasses" cluster [dynamic];
            workloads Workload "workloads" namespaced [typed from 37];
        }
        v1alpha3 SchedulingV1alpha3 [api::scheduling::v1alpha3] {
            composite_pod_groups CompositePodGroup "compositepodgroups" namespaced [typed from 37];
            pod_groups PodGroup "podgroups" namespaced [typed from 37];
            workloads Workload "workloads" namespaced [typed from 37];
        }
        v1alpha2 SchedulingV1alpha2 [api::scheduling::v1alpha2] {
            pod_groups PodGroup "podgroups" namespaced [typed from 36 to 36];
            workloads Workload "workloads" namespaced [typed from 36 to 36];
        }
        v1alpha1 SchedulingV1alpha1 [api::scheduling::v1alpha1] {
            workloads Workload "workloads" namespaced [typed from 35 to 35];
        }
    }
    storage Storage "storage.k8s.io" {
        v1 StorageV1 [api::storage::v1] {
            csi_drivers CSIDriver "csidrivers" cluster [typed];
            csi_nodes CSINode "csinodes" cluster [typed];
            csi_storage_capacities CSIStorageCapacity "csistoragecapacities" namespaced [typed];
            storage_classes StorageClass "storageclasses" cluster [typed];
            volume_attachments VolumeAttachment "volumeattachments" cluster [typed];
            volume_attributes_classes VolumeAttributesClass "volumeattributesclasses" cluster [typed from 34];
        }
        v1beta1 StorageV1beta1 [api::storage::v1beta1] {
            csi_drivers CSIDriver "csidrivers" cluster [dynamic];
            csi_nodes CSINode "csinodes" cluster [dynamic];
            csi_storage_capacities CSIStorageCapacity "csistoragecapacities" namespaced [dynamic];
            storage_classes StorageClass "storageclasses" cluster [dynamic];
            volume_attachments VolumeAttachment "volumeattachments" cluster [dynamic];
            volume_attributes_classes VolumeAttributesClass "volumeattributesclasses" cluster [typed to 36];
        }
        v1alpha1 StorageV1alpha1 [api::storage::v1alpha1] {
            csi_storage_capacities CSIStorageCapacity "csistoragecapacities" namespaced [dynamic];
            volume_attachments VolumeAttachment "volumeattachments" cluster [dynamic];
            volume_attributes_classes VolumeAttributesClass "volumeattributesclasses" cluster [typed to 34];
        }
    }
    storagemigration Storagemigration "storagemigration.k8s.io" {
        v1 StoragemigrationV1 [api::storagemigration::v1] {
            storage_version_migrations StorageVersionMigration "storageversionmigrations" cluster [typed from 37];
        }
        v1beta1 StoragemigrationV1beta1 [api::storagemigration::v1beta1] {
            storage_version_migrations StorageVersionMigration "storageversionmigrations" cluster [typed from 35];
        }
        v1alpha1 StoragemigrationV1alpha1 [api::storagemigration::v1alpha1] {
            storage_version_migrations StorageVersionMigration "storageversionmigrations" cluster [typed to 34];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What client-go's generic informer table has, from its source.
    const UPSTREAM: &str = include_str!("upstream.txt");

    fn upstream() -> Vec<(&'static str, &'static str, &'static str)> {
        let rows = UPSTREAM.lines().map(|line| {
            let mut words = line.split(' ');
            let mut next = || words.next().expect("three words in a line");
            (next(), next(), next())
        });
        rows.map(|(group, version, plural)| (if group == "core" { "" } else { group }, version, plural))
            .collect()
    }

    #[test]
    fn every_row_of_client_go_is_typed_dynamic_or_absent_with_a_reason() {
        let rows = upstream();
        assert_eq!(rows.len(), 147);
        for (group, version, plural) in rows {
            let present = builtin(group, version, plural).is_some();
            let reason = ABSENT
                .iter()
                .find(|row| (row.0, row.1, row.2) == (group, version, plural));
            assert!(
                present != reason.is_some(),
                "{plural}.{version}.{group} is neither in the table nor absent with a reason, or both"
            );
            assert!(
                reason.is_none_or(|row| row.3.len() > 20),
                "{plural}: the reason is missing"
            );
        }
    }

    #[test]
    fn no_row_is_there_twice() {
        let names: BTreeSet<_> = BUILTINS
            .iter()
            .map(|row| (row.group, row.version, row.plural))
            .collect();

        assert_eq!(names.len(), BUILTINS.len());
    }

    #[test]
    fn the_table_agrees_with_the_types() {
        use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};

        for (typed, row) in [
            (
                ResourceType::of::<Deployment>(),
                builtin("apps", "v1", "deployments"),
            ),
            (ResourceType::of::<Node>(), builtin("", "v1", "nodes")),
        ] {
            assert_eq!(row.unwrap().resource(), typed);
        }
    }
}
