//! The kinds of Kubernetes 1.37, in the order in which a server lists them.
//!
//! [`super::Registry`] turns the rows of this table into kinds. Alpha and beta versions are included but are served
//! only if enabled.

use super::verbs::{CREATE_ONLY, NO_DELETECOLLECTION, READ_ONLY, STORED};

/// One version of one group and its kinds.
pub(super) struct Version {
    pub group: &'static str,
    pub version: &'static str,
    pub kinds: &'static [BuiltinKind],
}

impl Version {
    /// Whether this version is served by default.
    pub(super) fn is_stable(&self) -> bool {
        !self.version.contains("alpha") && !self.version.contains("beta")
    }
}

/// One kind; lists are separated by spaces.
pub(super) struct BuiltinKind {
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    pub short_names: &'static str,
    pub categories: &'static str,
    pub subresources: &'static str,
    pub verbs: &'static [&'static str],
}

impl BuiltinKind {
    const fn short(self, short_names: &'static str) -> Self {
        Self { short_names, ..self }
    }

    const fn category(self, categories: &'static str) -> Self {
        Self { categories, ..self }
    }

    const fn subresources(self, subresources: &'static str) -> Self {
        Self { subresources, ..self }
    }

    const fn verbs(self, verbs: &'static [&'static str]) -> Self {
        Self { verbs, ..self }
    }
}

const fn namespaced(kind: &'static str, plural: &'static str) -> BuiltinKind {
    BuiltinKind {
        kind,
        plural,
        namespaced: true,
        short_names: "",
        categories: "",
        subresources: "",
        verbs: STORED,
    }
}

const fn cluster(kind: &'static str, plural: &'static str) -> BuiltinKind {
    BuiltinKind {
        namespaced: false,
        ..namespaced(kind, plural)
    }
}

#[rustfmt::skip]
pub(super) const VERSIONS: &[Version] = &[
    Version { group: "", version: "v1", kinds: &[
        namespaced("Binding", "bindings").verbs(CREATE_ONLY),
        cluster("ComponentStatus", "componentstatuses").short("cs").verbs(READ_ONLY),
        namespaced("ConfigMap", "configmaps").short("cm"),
        namespaced("Endpoints", "endpoints").short("ep"),
        namespaced("Event", "events").short("ev"),
        namespaced("LimitRange", "limitranges").short("limits"),
        cluster("Namespace", "namespaces")
            .short("ns").subresources("finalize status").verbs(NO_DELETECOLLECTION),
        cluster("Node", "nodes").short("no").subresources("status"),
        namespaced("PersistentVolumeClaim", "persistentvolumeclaims").short("pvc").subresources("status"),
        cluster("PersistentVolume", "persistentvolumes").short("pv").subresources("status"),
        namespaced("Pod", "pods")
            .short("po").category("all").subresources("attach binding ephemeralcontainers eviction exec log portforward proxy resize status"),
        namespaced("PodTemplate", "podtemplates"),
        namespaced("ReplicationController", "replicationcontrollers")
            .short("rc").category("all").subresources("scale status"),
        namespaced("ResourceQuota", "resourcequotas").short("quota").subresources("status"),
        namespaced("Secret", "secrets"),
        namespaced("ServiceAccount", "serviceaccounts").short("sa").subresources("token"),
        namespaced("Service", "services").short("svc").category("all").subresources("status"),
    ] },
    Version { group: "apiregistration.k8s.io", version: "v1", kinds: &[
        cluster("APIService", "apiservices").category("api-extensions").subresources("status"),
    ] },
    Version { group: "apps", version: "v1", kinds: &[
        namespaced("ControllerRevision", "controllerrevisions"),
        namespaced("DaemonSet", "daemonsets").short("ds").category("all").subresources("status"),
        namespaced("Deployment", "deployments").short("deploy").category("all").subresources("scale status"),
        namespaced("ReplicaSet", "replicasets").short("rs").category("all").subresources("scale status"),
        namespaced("StatefulSet", "statefulsets").short("sts").category("all").subresources("scale status"),
    ] },
    Version { group: "events.k8s.io", version: "v1", kinds: &[
        namespaced("Event", "events").short("ev"),
    ] },
    Version { group: "authentication.k8s.io", version: "v1", kinds: &[
        cluster("SelfSubjectReview", "selfsubjectreviews").verbs(CREATE_ONLY),
        cluster("TokenReview", "tokenreviews").verbs(CREATE_ONLY),
    ] },
    Version { group: "authorization.k8s.io", version: "v1", kinds: &[
        namespaced("LocalSubjectAccessReview", "localsubjectaccessreviews").verbs(CREATE_ONLY),
        cluster("SelfSubjectAccessReview", "selfsubjectaccessreviews").verbs(CREATE_ONLY),
        cluster("SelfSubjectRulesReview", "selfsubjectrulesreviews").verbs(CREATE_ONLY),
        cluster("SubjectAccessReview", "subjectaccessreviews").verbs(CREATE_ONLY),
    ] },
    Version { group: "autoscaling", version: "v2", kinds: &[
        namespaced("HorizontalPodAutoscaler", "horizontalpodautoscalers")
            .short("hpa").category("all").subresources("status"),
    ] },
    Version { group: "autoscaling", version: "v1", kinds: &[
        namespaced("HorizontalPodAutoscaler", "horizontalpodautoscalers")
            .short("hpa").category("all").subresources("status"),
    ] },
    Version { group: "batch", version: "v1", kinds: &[
        namespaced("CronJob", "cronjobs").short("cj").category("all").subresources("status"),
        namespaced("Job", "jobs").category("all").subresources("status"),
    ] },
    Version { group: "certificates.k8s.io", version: "v1", kinds: &[
        cluster("CertificateSigningRequest", "certificatesigningrequests")
            .short("csr").subresources("approval status"),
        cluster("ClusterTrustBundle", "clustertrustbundles"),
        namespaced("PodCertificateRequest", "podcertificaterequests").subresources("status"),
    ] },
    Version { group: "certificates.k8s.io", version: "v1beta1", kinds: &[
        cluster("ClusterTrustBundle", "clustertrustbundles"),
        namespaced("PodCertificateRequest", "podcertificaterequests").subresources("status"),
    ] },
    Version { group: "networking.k8s.io", version: "v1", kinds: &[
        cluster("IngressClass", "ingressclasses"),
        namespaced("Ingress", "ingresses").short("ing").subresources("status"),
        cluster("IPAddress", "ipaddresses").short("ip"),
        namespaced("NetworkPolicy", "networkpolicies").short("netpol"),
        cluster("ServiceCIDR", "servicecidrs").subresources("status"),
    ] },
    Version { group: "policy", version: "v1", kinds: &[
        namespaced("PodDisruptionBudget", "poddisruptionbudgets").short("pdb").subresources("status"),
    ] },
    Version { group: "rbac.authorization.k8s.io", version: "v1", kinds: &[
        cluster("ClusterRoleBinding", "clusterrolebindings"),
        cluster("ClusterRole", "clusterroles"),
        namespaced("RoleBinding", "rolebindings"),
        namespaced("Role", "roles"),
    ] },
    Version { group: "storage.k8s.io", version: "v1", kinds: &[
        cluster("CSIDriver", "csidrivers"),
        cluster("CSINode", "csinodes").subresources("status"),
        namespaced("CSIStorageCapacity", "csistoragecapacities"),
        cluster("StorageClass", "storageclasses").short("sc"),
        cluster("VolumeAttachment", "volumeattachments").subresources("status"),
        cluster("VolumeAttributesClass", "volumeattributesclasses").short("vac"),
    ] },
    Version { group: "admissionregistration.k8s.io", version: "v1", kinds: &[
        cluster("MutatingAdmissionPolicy", "mutatingadmissionpolicies").category("api-extensions"),
        cluster("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings")
            .category("api-extensions"),
        cluster("MutatingWebhookConfiguration", "mutatingwebhookconfigurations").category("api-extensions"),
        cluster("ValidatingAdmissionPolicy", "validatingadmissionpolicies")
            .category("api-extensions").subresources("status"),
        cluster("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings")
            .category("api-extensions"),
        cluster("ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
            .category("api-extensions"),
    ] },
    Version { group: "admissionregistration.k8s.io", version: "v1beta1", kinds: &[
        cluster("MutatingAdmissionPolicy", "mutatingadmissionpolicies").category("api-extensions"),
        cluster("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings")
            .category("api-extensions"),
    ] },
    Version { group: "admissionregistration.k8s.io", version: "v1alpha1", kinds: &[
        cluster("MutatingAdmissionPolicy", "mutatingadmissionpolicies").category("api-extensions"),
        cluster("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings")
            .category("api-extensions"),
    ] },
    Version { group: "apiextensions.k8s.io", version: "v1", kinds: &[
        cluster("CustomResourceDefinition", "customresourcedefinitions")
            .short("crd crds").category("api-extensions").subresources("status"),
    ] },
    Version { group: "scheduling.k8s.io", version: "v1", kinds: &[
        cluster("PriorityClass", "priorityclasses").short("pc"),
    ] },
    Version { group: "scheduling.k8s.io", version: "v1beta1", kinds: &[
        namespaced("PodGroup", "podgroups").subresources("status"),
        namespaced("Workload", "workloads"),
    ] },
    Version { group: "scheduling.k8s.io", version: "v1alpha3", kinds: &[
        namespaced("CompositePodGroup", "compositepodgroups").subresources("status"),
        namespaced("PodGroup", "podgroups").subresources("status"),
        namespaced("Workload", "workloads"),
    ] },
    Version { group: "coordination.k8s.io", version: "v1", kinds: &[
        namespaced("Lease", "leases"),
    ] },
    Version { group: "coordination.k8s.io", version: "v1beta1", kinds: &[
        namespaced("LeaseCandidate", "leasecandidates"),
    ] },
    Version { group: "coordination.k8s.io", version: "v1alpha2", kinds: &[
        namespaced("LeaseCandidate", "leasecandidates"),
    ] },
    Version { group: "node.k8s.io", version: "v1", kinds: &[
        cluster("RuntimeClass", "runtimeclasses"),
    ] },
    Version { group: "discovery.k8s.io", version: "v1", kinds: &[
        namespaced("EndpointSlice", "endpointslices"),
    ] },
    Version { group: "resource.k8s.io", version: "v1", kinds: &[
        cluster("DeviceClass", "deviceclasses"),
        cluster("DeviceTaintRule", "devicetaintrules").subresources("status"),
        namespaced("ResourceClaim", "resourceclaims").subresources("status"),
        namespaced("ResourceClaimTemplate", "resourceclaimtemplates"),
        cluster("ResourceSlice", "resourceslices"),
    ] },
    Version { group: "resource.k8s.io", version: "v1beta2", kinds: &[
        cluster("DeviceClass", "deviceclasses"),
        cluster("DeviceTaintRule", "devicetaintrules").subresources("status"),
        namespaced("ResourceClaim", "resourceclaims").subresources("status"),
        namespaced("ResourceClaimTemplate", "resourceclaimtemplates"),
        cluster("ResourceSlice", "resourceslices"),
    ] },
    Version { group: "resource.k8s.io", version: "v1beta1", kinds: &[
        cluster("DeviceClass", "deviceclasses"),
        namespaced("ResourceClaim", "resourceclaims").subresources("status"),
        namespaced("ResourceClaimTemplate", "resourceclaimtemplates"),
        cluster("ResourceSlice", "resourceslices"),
    ] },
    Version { group: "resource.k8s.io", version: "v1alpha3", kinds: &[
        cluster("DeviceTaintRule", "devicetaintrules").subresources("status"),
        cluster("ResourcePoolStatusRequest", "resourcepoolstatusrequests").subresources("status"),
    ] },
    Version { group: "flowcontrol.apiserver.k8s.io", version: "v1", kinds: &[
        cluster("FlowSchema", "flowschemas").subresources("status"),
        cluster("PriorityLevelConfiguration", "prioritylevelconfigurations").subresources("status"),
    ] },
    Version { group: "internal.apiserver.k8s.io", version: "v1alpha1", kinds: &[
        cluster("StorageVersion", "storageversions").subresources("status"),
    ] },
    Version { group: "storagemigration.k8s.io", version: "v1", kinds: &[
        cluster("StorageVersionMigration", "storageversionmigrations").subresources("status"),
    ] },
    Version { group: "storagemigration.k8s.io", version: "v1beta1", kinds: &[
        cluster("StorageVersionMigration", "storageversionmigrations").subresources("status"),
    ] },
    Version { group: "lifecycle.k8s.io", version: "v1alpha1", kinds: &[
        namespaced("EvictionRequest", "evictionrequests").subresources("status"),
        namespaced("Eviction", "evictions").subresources("status"),
    ] },
];
