//! The server from the perspective of its clients: in process, on the paused clock.

mod common;
mod conformant;
mod controllers;
mod custom;
mod faults;
mod fuzz;
mod garbage;
mod hostile;
mod judged;
mod kube_clients;
mod list;
mod live;
mod patch;
mod poison;
mod rbac;
mod replicas;
mod rules;
mod scale;
mod server;
mod socket;
mod state;
mod table;
mod watch;

mod write;
