//! The certificates of a control plane: one authority, the server's certificate, and one for each user.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::TestenvError;

/// A certificate with its key, both as PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

/// Who signs the certificates of one control plane.
#[derive(Debug)]
pub struct Authority {
    pub certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Result<Self, TestenvError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "testenv");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Authority { certificate, issuer: Issuer::new(params, key) })
    }

    /// The certificate of a server with these names and addresses.
    pub fn server(&self, names: &[&str]) -> Result<Identity, TestenvError> {
        let params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        self.signed(params, "server", ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// The certificate of a user, who is in these groups.
    pub fn user(&self, name: &str, groups: &[&str]) -> Result<Identity, TestenvError> {
        let mut params = CertificateParams::new(Vec::new())?;
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        self.signed(params, name, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn signed(
        &self,
        mut params: CertificateParams,
        name: &str,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<Identity, TestenvError> {
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

/// A key to sign service account tokens with, and its public part to check them by, as PEM.
pub fn signing_key() -> Result<(String, String), TestenvError> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}
