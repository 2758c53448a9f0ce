//! Prints the events that our informer's handler receives: one JSON object per line, in the format of
//! `verify/go/client-go`.
//!
//! It stops when its standard input ends, and then prints the objects in its store, one per line.

use kube_informers::reflector::ReflectorConfig;
use kube_informers::reflector::StreamEnd;
use kube_informers::source::SourceOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube_differential::{Event as LineType, Line};
use kube_informers::source::Encoding;
use kube_informers::{Cause, Event, Informer, Object, Scope};
use tokio::io::AsyncReadExt;

const USAGE: &str = "usage: informer-lines --kubeconfig=FILE --resource=group/version/resource [--namespace=NAME] \
                     [--label-selector=SELECTOR] [--field-selector=SELECTOR] [--watch-list=true|false] [--resync=SECONDS] \
                     [--encoding=json|protobuf]";

#[derive(Debug, Default)]
struct Options {
    kubeconfig: PathBuf,
    resource: String,
    namespace: String,
    labels: String,
    fields: String,
    no_watch_list: bool,
    resync: Option<Duration>,
    encoding: Encoding,
}

impl Options {
    fn read(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options::default();
        for argument in arguments {
            let (name, value) = argument
                .split_once('=')
                .ok_or_else(|| format!("{argument} has no value\n{USAGE}"))?;
            let value = value.to_owned();
            match name {
                "--kubeconfig" => options.kubeconfig = value.into(),
                "--resource" => options.resource = value,
                "--namespace" => options.namespace = value,
                "--label-selector" => options.labels = value,
                "--field-selector" => options.fields = value,
                "--watch-list" => options.no_watch_list = value == "false",
                "--encoding" => {
                    options.encoding = match value.as_str() {
                        "json" => Encoding::Json,
                        "protobuf" => Encoding::Protobuf,
                        _ => return Err(format!("{argument} is neither json nor protobuf")),
                    }
                }
                "--resync" => {
                    let seconds = value
                        .parse()
                        .map_err(|_| format!("{argument} is not a number of seconds"))?;
                    options.resync = Some(Duration::from_secs(seconds)).filter(|period| !period.is_zero());
                }
                _ => return Err(format!("unknown option {name}\n{USAGE}")),
            }
        }
        Ok(options)
    }

    fn scope(&self) -> Result<Scope, Box<dyn std::error::Error>> {
        let scope = match self.namespace.as_str() {
            "" => Scope::all(),
            namespace => Scope::namespace(namespace),
        };
        Ok(scope.labels(&self.labels)?.fields(&self.fields)?)
    }
}

/// Resolves a plural name through discovery.
async fn resource(client: &kube::Client, name: &str) -> Result<ApiResource, Box<dyn std::error::Error>> {
    let parts: Vec<&str> = name.split('/').collect();
    let &[group, version, plural] = parts.as_slice() else {
        return Err(format!("{name} is not of the form group/version/resource").into());
    };
    let served = match group {
        "" => client.list_core_api_resources(version).await?,
        _ => {
            client
                .list_api_group_resources(&format!("{group}/{version}"))
                .await?
        }
    };
    let found = served
        .resources
        .into_iter()
        .find(|resource| resource.name == plural);
    let found = found.ok_or_else(|| format!("the server has no {name}"))?;
    let gvk = GroupVersionKind::gvk(group, version, &found.kind);
    Ok(ApiResource::from_gvk_with_plural(&gvk, plural))
}

fn line_for(event: LineType, object: &DynamicObject) -> Line {
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    Line {
        event,
        initial: false,
        cause: String::new(),
        namespace: text(object.object_namespace()),
        name: text(object.metadata.name.as_deref()),
        uid: text(object.object_uid()),
        resource_version: text(object.object_version()),
        old_resource_version: String::new(),
    }
}

fn line(event: &Event<DynamicObject>) -> Line {
    match event {
        Event::Added { object, initial } => Line {
            initial: *initial,
            ..line_for(LineType::Added, object)
        },
        Event::Updated { old, new, .. } => Line {
            old_resource_version: line_for(LineType::Updated, old).resource_version,
            ..line_for(LineType::Updated, new)
        },
        Event::Deleted { object, cause } => Line {
            cause: match cause {
                Cause::Observed => "observed",
                Cause::Missed => "missed",
                _ => "left-scope",
            }
            .to_owned(),
            ..line_for(LineType::Deleted, object)
        },
    }
}

fn print(line: &Line) {
    let printed = serde_json::to_string(line)
        .map_err(io::Error::from)
        .and_then(|text| writeln!(io::stdout().lock(), "{text}"));
    if let Err(error) = printed {
        eprintln!("cannot write to standard output: {error}");
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::read(std::env::args().skip(1))?;
    let kubeconfig = Kubeconfig::read_from(&options.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = kube::Client::try_from(config)?;
    let resource = resource(&client, &options.resource).await?;
    let (informer, task) = Informer::dynamic(client, &resource, options.scope()?)
        .source(SourceOptions {
            encoding: options.encoding,
            ..Default::default()
        })?
        .config(ReflectorConfig {
            watch_list: !options.no_watch_list,
            resync: options.resync,
            on_stream_end: Some(Arc::new(|end: &StreamEnd<'_>| eprintln!("{end:?}"))),
            ..Default::default()
        })
        .build();
    let registration = informer.add_event_handler(|event: Event<DynamicObject>| print(&line(&event)))?;
    let announce_sync = async {
        if registration.synced().await.is_ok() {
            print(&Line {
                event: LineType::Synced,
                ..line_for(LineType::Synced, &DynamicObject::new("", &resource))
            });
        }
        std::future::pending::<()>().await;
    };
    let stdin = async {
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    };
    tokio::select! {
        _ = task.run() => {}
        () = announce_sync => {}
        () = stdin => {}
    }
    for object in informer.store().list().iter() {
        print(&line_for(LineType::Stored, object));
    }
    informer.shutdown().await;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("informer-lines: {error}");
            ExitCode::FAILURE
        }
    }
}
