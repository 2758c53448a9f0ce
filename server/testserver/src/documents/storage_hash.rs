//! The hash that identifies the storage version of a resource in discovery.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::kinds::Kind;

/// The hash of the kind's storage version.
#[doc(alias = "StorageVersionHash")]
pub(super) fn storage_version_hash(kind: &Kind) -> String {
    let version = match (kind.group.as_str(), kind.kind.as_str()) {
        // Still stored in a version that is no longer served.
        ("apiextensions.k8s.io", "CustomResourceDefinition") => "v1beta1",
        _ => &kind.stored.version,
    };
    let identity = format!("{}/{version}/{}", kind.stored.group, kind.kind);
    STANDARD.encode(&sha256(identity.as_bytes())[..8])
}

/// SHA-256 as in FIPS 180-4.
fn sha256(message: &[u8]) -> [u8; 32] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    let bits = (message.len() as u64 * 8).to_be_bytes();
    if message.len() % 64 >= 56 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len();
    padded[end - 8..].copy_from_slice(&bits);
    let mut state = INITIAL;
    for block in padded.chunks_exact(64) {
        compress(&mut state, block);
    }
    let mut digest = [0; 32];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

fn compress(state: &mut [u32; 8], block: &[u8]) {
    let mut schedule = [0_u32; 64];
    for (word, bytes) in schedule.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, &byte| word << 8 | u32::from(byte));
    }
    for at in 16..64 {
        let (near, far) = (schedule[at - 2], schedule[at - 15]);
        let near = near.rotate_right(17) ^ near.rotate_right(19) ^ (near >> 10);
        let far = far.rotate_right(7) ^ far.rotate_right(18) ^ (far >> 3);
        schedule[at] = schedule[at - 16]
            .wrapping_add(far)
            .wrapping_add(schedule[at - 7])
            .wrapping_add(near);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (constant, word) in ROUNDS.iter().zip(schedule) {
        let mixed = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let first = h
            .wrapping_add(mixed)
            .wrapping_add((e & f) ^ (!e & g))
            .wrapping_add(*constant)
            .wrapping_add(word);
        let mixed = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = mixed.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    for (word, change) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(change);
    }
}

#[rustfmt::skip]
const INITIAL: [u32; 8] = [
    0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
];

#[rustfmt::skip]
const ROUNDS: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;

    #[test]
    fn digests_match_the_standard_for_every_length_of_the_padding() {
        let digest = |length: usize| {
            let digest = sha256(&vec![b'a'; length]);
            digest[..4]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        // Printed by `head -c N /dev/zero | tr '\0' a | sha256sum`.
        let expected = [
            (0, "e3b0c442"),
            (1, "ca978112"),
            (55, "9f4390f8"),
            (56, "b35439a4"),
            (63, "7d3e74a0"),
            (64, "ffe054fe"),
            (119, "31eba51c"),
            (120, "2f3d3354"),
            (1000, "41edece4"),
        ];
        for (length, start) in expected {
            assert_eq!(digest(length), start, "{length} bytes");
        }
    }

    #[test]
    fn kinds_that_share_a_collection_share_its_hash() {
        let registry = Registry::builtin();
        let hash = |group: &str| {
            let kind = registry.resource(group, "v1", "events").unwrap();
            storage_version_hash(&kind)
        };
        assert_eq!(hash(""), hash("events.k8s.io"));
        assert_eq!(hash(""), "r2yiGXH7wu8=");
    }
}
