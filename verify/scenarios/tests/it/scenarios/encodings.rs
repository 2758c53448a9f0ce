//! JSON and protobuf of one object have one value, and compressed responses the value of uncompressed ones.

mod samples;

use kube_informers::source::SourceOptions;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Client;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube_informers::ListWatch;
use kube_informers::source::{Encoding, ResourceType};
use kube_informers::{Informer, Object, Scope};
use kube_informers_e2e::{Server, TIMEOUT};
use kube_protobuf::{MEDIA_TYPE, Options, from_body, schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::scenarios::support::{
    Observed, Outcome, config_map, get, get_as, get_with, namespace, scenarios, unique, wait_for,
};

scenarios! {
    every_object_of_every_kind_is_equal_in_both_encodings: Setup::own();
    metadata_of_a_custom_kind_comes_as_protobuf: Setup::shared();
    informers_of_both_encodings_hold_equal_objects: Setup::shared();
    drop_parameter_of_the_accept_header_is_ignored: Setup::shared();
    compressed_watch_list_delivers_every_event: Setup::shared();
}

/// A resource that can be listed: its path, API version and kind.
struct Listable {
    path: String,
    api_version: String,
    kind: String,
}

/// All resources of all served versions, from discovery.
async fn listables(client: &Client) -> Result<Vec<Listable>, kube::Error> {
    let texts = |value: &Value, pointer: &str, field: &str| -> Vec<String> {
        let entries = value.pointer(pointer).and_then(Value::as_array);
        let entries = entries.into_iter().flatten();
        entries
            .filter_map(|entry| entry[field].as_str().map(str::to_owned))
            .collect()
    };
    let mut versions = vec![("/api/v1".to_owned(), "v1".to_owned())];
    let groups = get(client, "/apis").await?.json;
    for group in groups["groups"].as_array().into_iter().flatten() {
        for version in texts(group, "/versions", "groupVersion") {
            versions.push((format!("/apis/{version}"), version));
        }
    }
    let mut found = Vec::new();
    for (path, api_version) in versions {
        let resources = get(client, &path).await?.json;
        for resource in resources["resources"].as_array().into_iter().flatten() {
            let verbs = resource["verbs"].as_array().into_iter().flatten();
            let (Some(name), Some(kind)) = (resource["name"].as_str(), resource["kind"].as_str()) else {
                continue;
            };
            if !name.contains('/') && verbs.into_iter().any(|verb| verb == "list") {
                found.push(Listable {
                    path: format!("{path}/{name}"),
                    api_version: api_version.clone(),
                    kind: kind.to_owned(),
                });
            }
        }
    }
    Ok(found)
}

/// The paths at which two values differ. Where JSON has an empty list or map, protobuf has no bytes, and `null` is
/// read.
fn differences(path: &str, json: &Value, protobuf: &Value, found: &mut Vec<String>) {
    match (json, protobuf) {
        (Value::Object(json), Value::Object(protobuf)) => {
            let keys: std::collections::BTreeSet<_> = json.keys().chain(protobuf.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                match (json.get(key), protobuf.get(key)) {
                    (Some(json), Some(protobuf)) => differences(&path, json, protobuf, found),
                    (Some(_), None) => found.push(format!("{path} only in JSON")),
                    _ => found.push(format!("{path} only in protobuf")),
                }
            }
        }
        (Value::Array(json), Value::Array(protobuf)) if json.len() == protobuf.len() => {
            for (index, (json, protobuf)) in json.iter().zip(protobuf).enumerate() {
                differences(&format!("{path}[{index}]"), json, protobuf, found);
            }
        }
        (Value::Array(json), Value::Null) if json.is_empty() => {}
        (Value::Object(json), Value::Null) if json.is_empty() => {}
        (json, protobuf) if json == protobuf => {}
        _ => found.push(format!("{path} differs")),
    }
}

async fn every_object_of_every_kind_is_equal_in_both_encodings(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    // The embedded server stores objects as they were sent, without the defaults of the Go types.
    let created = match server.name() {
        "embedded" => 0,
        _ => samples::create(&client, &namespace.name).await?,
    };
    assert!(server.name() == "embedded" || created > 35, "{created} samples");

    let (mut kinds, mut objects, mut wrong) = (0, 0, Vec::new());
    for resource in listables(&client).await? {
        let Listable {
            path,
            api_version,
            kind,
        } = resource;
        let json = get(&client, &path).await?;
        let in_schema = schema::lookup(&api_version, &kind).is_some();
        if !in_schema && json.code != 200 {
            continue; // a custom kind of another scenario that is being defined or removed
        }
        assert_eq!(json.code, 200, "{path}: {}", json.text);
        let version = json.text_at("/metadata/resourceVersion");
        // Component statuses are computed for each request, in any order, and have no version.
        if version.is_empty() {
            continue;
        }
        let same_version = format!("{path}?resourceVersion={version}&resourceVersionMatch=Exact");
        let protobuf = get_as(&client, &same_version, MEDIA_TYPE).await?;
        if !in_schema {
            assert_ne!(protobuf.code, 200, "{path} is protobuf of an unknown kind");
            continue;
        }
        assert_eq!(protobuf.code, 200, "{path}: {}", protobuf.text);
        assert_eq!(protobuf.content_type, MEDIA_TYPE, "{path}");
        let decoded: Value =
            from_body(&protobuf.bytes, &Options::new()).map_err(|error| format!("{path}: {error}"))?;
        differences(&path, &json.json, &decoded, &mut wrong);
        kinds += 1;
        objects += json.json["items"].as_array().map_or(0, Vec::len);
    }

    // Protobuf has no type for an object within another one.
    wrong.retain(|path| !path.contains(".volumeClaimTemplates["));
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!(
        "{objects} objects of {kinds} kinds are equal in both encodings, {created} of them created here"
    );
    assert!(
        kinds > 20 && objects > created,
        "{kinds} kinds, {objects} objects"
    );
    namespace.delete().await?;
    Ok(())
}

async fn metadata_of_a_custom_kind_comes_as_protobuf(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let group = format!("{}.example.com", unique("e2e"));
    let path = samples::define_gadgets(&client, &group).await?;
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", "Gadget"), "gadgets");
    let gadgets = kube::Api::<DynamicObject>::namespaced_with(client.clone(), &namespace.name, &resource);
    let gadget = json!({"metadata": {"name": "one", "labels": {"app": "x"}}, "spec": {"size": 1}});
    wait_for("the kind is served", async || {
        gadgets.list(&ListParams::default()).await.ok()
    })
    .await;
    let gadget = DynamicObject::new("one", &resource).data(gadget);
    gadgets.create(&PostParams::default(), &gadget).await?;

    let parameters = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let json = get_as(&client, &path, &format!("application/json;{parameters}")).await?;
    let protobuf = get_as(&client, &path, &format!("{MEDIA_TYPE};{parameters}")).await?;
    assert_eq!((json.code, protobuf.code), (200, 200), "{}", protobuf.text);
    assert_eq!(protobuf.content_type, MEDIA_TYPE);
    let decoded: Value = from_body(&protobuf.bytes, &Options::new())?;
    assert_eq!(json.json["items"][0]["metadata"], decoded["items"][0]["metadata"]);

    let metadata = ResourceType::from(&resource).metadata_only();
    let source =
        ListWatch::<PartialObjectMeta<DynamicObject>>::projected(client.clone(), metadata, Scope::all());
    let informer = Informer::from_list_watch(source.options(encoded_as(Encoding::Protobuf))).start();
    informer.synced().await?;
    let cached = informer.store().get((namespace.name.as_str(), "one"));
    assert!(cached.is_some_and(|gadget| gadget.metadata.uid.is_some()));
    gadgets.delete("one", &DeleteParams::default()).await?;
    wait_for("the deletion is observed", async || {
        informer.store().is_empty().then_some(())
    })
    .await;
    samples::remove_gadgets(&client, &group).await?;
    namespace.delete().await?;
    Ok(())
}

async fn informers_of_both_encodings_hold_equal_objects(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let mut config = config_map("a", 0);
    config.binary_data = Some([("bytes".to_owned(), k8s_openapi::ByteString(vec![0, 255]))].into());
    equal_in_both_encodings(&client, &namespace.name, config).await?;
    // The embedded server stores objects as they were sent, without the defaults of the Go types.
    if server.name() != "embedded" {
        let pod: Pod = serde_json::from_value(samples::pod("a"))?;
        equal_in_both_encodings(&client, &namespace.name, pod).await?;
    }
    namespace.delete().await?;
    Ok(())
}

fn encoded_as(encoding: Encoding) -> SourceOptions {
    SourceOptions {
        encoding,
        ..Default::default()
    }
}

/// Creates an object while two informers run, and compares what they hold.
async fn equal_in_both_encodings<K>(client: &Client, namespace: &str, object: K) -> Outcome
where
    K: Object + PartialEq + Clone + Debug + Serialize + DeserializeOwned,
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let informer = |encoding| {
        let source = ListWatch::<K>::new(client.clone(), Scope::namespace(namespace));
        Informer::from_list_watch(source.options(encoded_as(encoding))).start()
    };
    let (json, protobuf) = (informer(Encoding::Json), informer(Encoding::Protobuf));
    json.synced_within(TIMEOUT).await?;
    protobuf.synced_within(TIMEOUT).await?;
    let objects = kube::Api::<K>::namespaced(client.clone(), namespace);
    let created = objects.create(&PostParams::default(), &object).await?;
    let version = created.meta().resource_version.clone().unwrap_or_default();
    for informer in [&json, &protobuf] {
        informer.wait_for_within(&version, TIMEOUT).await?;
    }

    let name = created.meta().name.as_deref().unwrap_or_default();
    let (from_json, from_protobuf) = (
        json.store().get((namespace, name)),
        protobuf.store().get((namespace, name)),
    );
    assert!(from_json.is_some());
    assert_eq!(from_json, from_protobuf);
    objects
        .delete(name, &DeleteParams::default().grace_period(0))
        .await?;
    Ok(())
}

/// KEP-5958 adds the parameter to a later version. Until then, a server must not reject it.
async fn drop_parameter_of_the_accept_header_is_ignored(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    maps.create(&PostParams::default(), &config_map("a", 0)).await?;
    // One object: the version of a list changes with writes of other scenarios.
    let path = format!("/api/v1/namespaces/{}/configmaps/a", namespace.name);

    for media_type in ["application/json", MEDIA_TYPE] {
        let plain = get_as(&client, &path, media_type).await?;
        let dropped = get_as(
            &client,
            &path,
            &format!("{media_type};drop=metadata.managedFields"),
        )
        .await?;
        assert_eq!((plain.code, dropped.code), (200, 200), "{}", dropped.text);
        assert_eq!(dropped.content_type, media_type);
        assert_eq!(plain.bytes, dropped.bytes, "{media_type}");
        assert!(plain.text.contains("f:data"), "{media_type}: no managedFields");
    }
    namespace.delete().await?;
    Ok(())
}

async fn compressed_watch_list_delivers_every_event(server: &Server) -> Outcome {
    const OBJECTS: usize = 60;
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let large = |name: &str| {
        let mut map = config_map(name, 0);
        map.data
            .get_or_insert_default()
            .insert("text".to_owned(), "compressible ".repeat(300));
        map
    };
    for n in 0..OBJECTS {
        maps.create(&PostParams::default(), &large(&format!("map-{n}")))
            .await?;
    }
    // Shows that the informer below reads compressed members. The server ends a member when it has nothing more to
    // send, so objects keep coming while the watch is open.
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
         &resourceVersionMatch=NotOlderThan&timeoutSeconds=2",
        namespace.name
    );
    let headers = [("accept", MEDIA_TYPE), ("accept-encoding", "gzip")];
    // The last change is awaited: dropped, its request could reach the server while the objects are compared below.
    let is_open = AtomicBool::new(true);
    let watching = async {
        let response = get_with(&client, &path, &headers).await;
        is_open.store(false, Ordering::Relaxed);
        response
    };
    let changes = async {
        for n in 0.. {
            if !is_open.load(Ordering::Relaxed) {
                break;
            }
            let name = format!("during-{n}");
            maps.create(&PostParams::default(), &config_map(&name, 0)).await?;
            maps.delete(&name, &DeleteParams::default()).await?;
        }
        Outcome::Ok(())
    };
    let (response, changed) = tokio::join!(watching, changes);
    changed?;
    let response = response?;
    assert_eq!((response.code, response.content_encoding.as_str()), (200, "gzip"));
    let members = response
        .bytes
        .windows(3)
        .filter(|bytes| bytes == &[0x1f, 0x8b, 0x08])
        .count();
    assert!(
        members > 1,
        "{members} gzip members in {} bytes",
        response.bytes.len()
    );

    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let scope = Scope::namespace(&namespace.name).labels("even")?;
        let source = ListWatch::<ConfigMap>::new(client.clone(), scope).options(SourceOptions {
            gzip: true,
            ..encoded_as(encoding)
        });
        let observed = Observed::synced(Informer::from_list_watch(source)).await?;
        let selection = ListParams::default().labels("even");
        observed
            .assert_exact(std::slice::from_ref(&maps), &selection)
            .await?;
        // A single small event arrives without waiting for others.
        maps.create(&PostParams::default(), &config_map("late", 0))
            .await?;
        observed
            .log
            .wait_for("it is added", |log| !log.of("late").is_empty())
            .await;
        maps.delete("late", &DeleteParams::default()).await?;
        observed
            .log
            .wait_for("it is deleted", |log| log.of("late").len() == 2)
            .await;
        observed
            .assert_exact(std::slice::from_ref(&maps), &selection)
            .await?;
        assert_eq!(observed.lists(), 1, "one watch-list");
    }
    namespace.delete().await?;
    Ok(())
}
