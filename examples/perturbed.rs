//! The controllers of the examples under perturbations.

#[path = "from_kube_runtime/perturbed.rs"]
mod from_kube_runtime;
#[path = "read_your_writes_controller/perturbed.rs"]
mod read_your_writes_controller;
#[path = "sample_controller/perturbed.rs"]
mod sample_controller;
