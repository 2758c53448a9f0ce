//! The program on a real kube-apiserver: who changed what, the columns of kubectl, and the permissions of the manifest.

mod authors;
mod columns;
mod packaging;
mod place;
