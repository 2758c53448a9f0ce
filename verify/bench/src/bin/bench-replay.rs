//! The replay server: `bench-replay --recording DIR` or `bench-replay --make COUNT`. Prints its URL when it is ready.
//! `bench-replay --pods COUNT DIR` writes the generated pods into files instead, as a packed cache holds them.

use std::path::Path;
use std::sync::Arc;

use kube_informers_bench::pod;
use kube_informers_bench::replay::{Encoded, Encoding, World, recording, serve};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let world = match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["--recording", directory] => recording::load(Path::new(directory))?,
        ["--make", count] => {
            let count = count.parse()?;
            let made = |encoding| Encoded::made(count, encoding).ok_or("cannot generate pods");
            World::new(made(Encoding::Json)?, Some(made(Encoding::Protobuf)?))?
        }
        ["--pods", count, directory] => return write_pods(count.parse()?, Path::new(directory)),
        _ => return Err("usage: bench-replay --recording DIR | --make COUNT | --pods COUNT DIR".into()),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    serve(listener, Arc::new(world)).await?;
    Ok(())
}

/// Each pod in protobuf, without managedFields.
fn write_pods(count: usize, directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let message = kube_protobuf::schema::lookup("v1", "Pod").ok_or("there is no schema of pods")?;
    std::fs::create_dir_all(directory)?;
    for number in 0..count {
        let mut pod = pod::pod(number);
        pod["metadata"]["managedFields"] = serde_json::json!([]);
        let bytes = kube_protobuf::ser::to_message(message, &pod)?;
        std::fs::write(directory.join(format!("{number:06}")), bytes)?;
    }
    Ok(())
}
