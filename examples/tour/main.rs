//! Short programs about the cache, one file each. `cargo run --example tour` runs them all, `-- indexes` runs one.

mod bodies;
mod custom_resource;
mod filtered_handler;
mod indexes;
mod lister;
mod packed_cache;
mod shared_factory;
mod trace_object;
mod transform;

const STOPS: [&str; 9] = [
    "lister",
    "indexes",
    "shared_factory",
    "filtered_handler",
    "custom_resource",
    "transform",
    "packed_cache",
    "bodies",
    // The last one: it turns the trace logs on.
    "trace_object",
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let chosen = std::env::args().nth(1);
    if let Some(name) = &chosen
        && !STOPS.contains(&name.as_str())
    {
        return Err(format!("there is no {name}; choose one of {}", STOPS.join(", ")).into());
    }
    for stop in STOPS {
        if chosen.as_deref().is_some_and(|name| name != stop) {
            continue;
        }
        println!("--- {stop}");
        match stop {
            "lister" => lister::run().await?,
            "indexes" => indexes::run().await?,
            "shared_factory" => shared_factory::run().await?,
            "filtered_handler" => filtered_handler::run().await?,
            "custom_resource" => custom_resource::run().await?,
            "transform" => transform::run().await?,
            "packed_cache" => packed_cache::run().await?,
            "bodies" => bodies::run().await?,
            _ => trace_object::run().await?,
        }
    }
    Ok(())
}
