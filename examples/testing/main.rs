//! Tests of controllers on the embedded server, and under perturbations.

mod embedded_server;
mod perturbation;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    embedded_server::run()?;
    perturbation::run();
    Ok(())
}
