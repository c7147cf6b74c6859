//! The program's image as an OCI layout, written without a daemon: one layer with the binary, CA roots and a user.
//!
//! What is written follows from the input alone: no clock, no names of this machine, no order of a folder. Two calls
//! with the same input write the same bytes.

pub mod bill_of_materials;
pub mod layout;
pub mod provenance;
pub mod roots;
pub mod tar;

/// The SHA-256 of bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
