//! Objects that Go wrote in both encodings, and messages written field by field.

#![allow(dead_code)]

pub mod message;
pub mod typed;

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A protobuf body and the JSON that Go prints after reading it.
pub struct Record {
    pub body: Vec<u8>,
    pub json: Vec<u8>,
}

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The records of a file: the one of the oracle run if `KUBE_PROTOBUF_ORACLE` names one, else the small one.
pub fn records() -> Vec<Record> {
    let path = std::env::var_os("KUBE_PROTOBUF_ORACLE").map_or_else(|| data("objects.bin.gz"), PathBuf::from);
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(file)
        .read_to_end(&mut bytes)
        .unwrap();
    let (mut rest, mut records) = (&bytes[..], Vec::new());
    let mut piece = || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (piece, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        rest = after;
        Some(piece.to_vec())
    };
    while let Some(body) = piece() {
        records.push(Record {
            body,
            json: piece().unwrap(),
        });
    }
    assert!(!records.is_empty());
    records
}

/// Where two trees differ.
pub fn differences(path: &str, json: &Value, protobuf: &Value, out: &mut Vec<String>) {
    match (json, protobuf) {
        (Value::Object(x), Value::Object(y)) => {
            for (key, value) in x {
                match y.get(key) {
                    Some(other) => differences(&format!("{path}.{key}"), value, other, out),
                    None => out.push(format!("{path}.{key}: JSON {value}, protobuf has none")),
                }
            }
            for (key, value) in y {
                if !x.contains_key(key) {
                    out.push(format!("{path}.{key}: JSON has none, protobuf {value}"));
                }
            }
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            for (i, (value, other)) in x.iter().zip(y).enumerate() {
                differences(&format!("{path}[#{i}]"), value, other, out);
            }
        }
        _ if json == protobuf => {}
        _ => out.push(format!("{path}: JSON {json}, protobuf {protobuf}")),
    }
}

/// A small random number generator, so that failures can be repeated.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}
