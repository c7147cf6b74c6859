//! The certificate authorities that browsers trust, as a file for the image. They come with the lock file, and not from
//! whatever machine builds the image.

use pem::{EncodeConfig, LineEnding, Pem, encode_config};

/// All of them, as PEM.
pub fn bundle() -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    webpki_root_certs::TLS_SERVER_ROOT_CERTS
        .iter()
        .map(|certificate| encode_config(&Pem::new("CERTIFICATE", certificate.to_vec()), config))
        .collect()
}
