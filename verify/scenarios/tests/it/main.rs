//! What must be equal on the embedded server and on a real kube-apiserver.

mod cluster;
mod controllers;
mod program;
mod scenarios;
