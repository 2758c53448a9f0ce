//! reflector_test.go: how a source names its objects, and which objects it accepts.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube_informers::codec::Expected;
use kube_informers::source::ListerWatcher;
use kube_informers::source::{Known, ListRequest, ListStream, ResourceType, WatchRequest, WatchStream};

/// A source without a description.
struct Nameless;

impl ListerWatcher<Pod> for Nameless {
    fn list(&self, _: ListRequest, _: Known<Pod>) -> ListStream<Pod> {
        Box::pin(futures_util::stream::empty())
    }

    fn watch(&self, _: WatchRequest, _: Known<Pod>) -> WatchStream<Pod> {
        Box::pin(futures_util::stream::empty())
    }
}

fn widgets() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("mygroup", "v1", "MyKind"))
}

/// Differs from client-go: objects are named by their resource, as in kubectl, and not by their type; a dynamic object
/// without a resource cannot be requested at all.
///
/// Upstream: TestGetTypeDescriptionFromObject
#[test]
fn objects_are_described_by_their_resource() {
    assert_eq!(Nameless.describe(), "objects");
    assert_eq!(ResourceType::of::<Pod>().to_string(), "pods");
    assert_eq!(ResourceType::of::<Deployment>().to_string(), "deployments.apps");
    let dynamic = ResourceType::of_dynamic::<DynamicObject>(&widgets());
    assert_eq!(dynamic.to_string(), "mykinds.mygroup");
    let metadata = ResourceType::of::<PartialObjectMeta<Pod>>();
    assert_eq!(metadata.to_string(), "pods");
    assert!(metadata.is_metadata_only());
}

fn expected(resource: &ResourceType) -> Expected {
    Expected {
        api_version: resource.api().api_version.clone(),
        kind: resource.api().kind.clone(),
        metadata_only: resource.is_metadata_only(),
    }
}

/// Differs from client-go: every source knows its kind, also one of typed objects, and always compares the type of an
/// object with it; upstream does so for dynamic objects only.
///
/// Upstream: TestGetExpectedGVKFromObject
#[test]
fn the_type_of_an_object_is_compared_with_the_requested_type() {
    let pods = expected(&ResourceType::of::<Pod>());
    assert_eq!(pods.to_string(), "v1/Pod");
    assert!(pods.admits(Some("v1"), Some("Pod")));
    assert!(pods.admits(None, None), "list items may omit their type");
    assert!(!pods.admits(Some("v1"), Some("Service")));
    assert!(!pods.admits(Some("mygroup/v1"), Some("Pod")));

    let widgets = expected(&ResourceType::of_dynamic::<DynamicObject>(&widgets()));
    assert_eq!(widgets.to_string(), "mygroup/v1/MyKind");
    assert!(widgets.admits(Some("mygroup/v1"), Some("MyKind")));
    assert!(!widgets.admits(Some("mygroup/v2"), Some("MyKind")));

    let metadata = expected(&ResourceType::of::<PartialObjectMeta<Pod>>());
    assert!(metadata.admits(Some("meta.k8s.io/v1"), Some("PartialObjectMetadata")));
    assert!(!pods.admits(Some("meta.k8s.io/v1"), Some("PartialObjectMetadata")));
}
