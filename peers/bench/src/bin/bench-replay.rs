//! The replay server: `bench-replay --recording DIR` or `bench-replay --make COUNT`. Prints its URL when it is ready.

use std::path::Path;
use std::sync::Arc;

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
        _ => return Err("usage: bench-replay --recording DIR | --make COUNT".into()),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    serve(listener, Arc::new(world)).await?;
    Ok(())
}
