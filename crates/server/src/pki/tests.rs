use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The certificates of one test.
struct Folder(testkit::Folder);

impl Folder {
    fn new() -> Self {
        Self(testkit::Folder::new().unwrap())
    }

    fn pki(&self) -> Pki {
        Pki::new(self.0.path().join("pki"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("pki").join(name)
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().permissions().mode() & 0o777
    }
}

fn names() -> Names {
    let mut names = Names::default();
    names.dns.insert("localhost".into());
    names.addresses.insert("127.0.0.1".parse().unwrap());
    names.addresses.insert("::1".parse().unwrap());
    names
}

#[test]
fn second_call_makes_nothing() {
    let folder = Folder::new();
    let now = SystemTime::now();
    let first = folder.pki().ensure(&names(), now).unwrap();
    assert_eq!(first.made.len(), 4, "{:?}", first.made);
    let second = folder.pki().ensure(&names(), now).unwrap();
    assert!(second.made.is_empty(), "{:?}", second.made);
    assert_eq!(
        (first.authority, first.serving, first.admin, first.token),
        (second.authority, second.serving, second.admin, second.token)
    );
}

#[test]
fn private_files_have_mode_0600() {
    let folder = Folder::new();
    folder.pki().ensure(&names(), SystemTime::now()).unwrap();
    for key in ["ca.key", "server.key", "admin.key", "admin.token"] {
        assert_eq!(folder.mode(key), 0o600, "{key}");
    }
    assert_eq!(folder.mode("."), 0o700);
}

#[test]
fn wider_mode_of_a_key_is_corrected() {
    let folder = Folder::new();
    folder.pki().ensure(&names(), SystemTime::now()).unwrap();
    fs::set_permissions(folder.path("server.key"), fs::Permissions::from_mode(0o644)).unwrap();
    folder.pki().ensure(&names(), SystemTime::now()).unwrap();
    assert_eq!(folder.mode("server.key"), 0o600);
}

#[test]
fn serving_certificate_has_the_names_and_admin_certificate_the_user() {
    let folder = Folder::new();
    let material = folder.pki().ensure(&names(), SystemTime::now()).unwrap();
    let serving = CertificateDer::from_pem_slice(material.serving.certificate.as_bytes()).unwrap();
    let (_, serving) = X509Certificate::from_der(&serving).unwrap();
    assert_eq!(
        serving.subject_alternative_name().unwrap().unwrap().value.general_names.len(),
        names().dns.len() + names().addresses.len()
    );
    assert!(serving.extended_key_usage().unwrap().unwrap().value.server_auth);
    let admin = CertificateDer::from_pem_slice(material.admin.certificate.as_bytes()).unwrap();
    let (_, admin) = X509Certificate::from_der(&admin).unwrap();
    assert_eq!(admin.subject().to_string(), "O=system:masters, CN=keelson-admin");
    assert!(admin.extended_key_usage().unwrap().unwrap().value.client_auth);
    assert!(!admin.is_ca());
}

#[test]
fn changed_names_replace_the_serving_certificate_only() {
    let folder = Folder::new();
    let now = SystemTime::now();
    let before = folder.pki().ensure(&names(), now).unwrap();
    let more = names().with_address("192.0.2.7".parse().unwrap());
    let after = folder.pki().ensure(&more, now).unwrap();
    assert_eq!(after.made.len(), 1, "{:?}", after.made);
    assert!(after.made[0].ends_with("server.crt: the names of the host have changed"), "{:?}", after.made);
    assert_eq!(before.authority, after.authority);
    assert_eq!(before.admin, after.admin);
    assert_ne!(before.serving, after.serving);
}

#[test]
fn certificates_are_renewed_before_they_expire() {
    let folder = Folder::new();
    let now = SystemTime::now();
    folder.pki().ensure(&names(), now).unwrap();
    assert!(folder.pki().ensure(&names(), now + 330 * DAY).unwrap().made.is_empty());
    assert_eq!(folder.pki().ensure(&names(), now + 340 * DAY).unwrap().made.len(), 2);
    assert!(folder.pki().ensure(&names(), now + 341 * DAY).unwrap().made.is_empty());
}

#[test]
fn expired_authority_is_replaced_with_all_certificates() {
    let folder = Folder::new();
    let now = SystemTime::now();
    let before = folder.pki().ensure(&names(), now).unwrap();
    let after = folder.pki().ensure(&names(), now + 3640 * DAY).unwrap();
    assert_eq!(after.made.len(), 3, "{:?}", after.made);
    assert_ne!(before.authority, after.authority);
}

#[test]
fn leaf_of_another_authority_or_key_is_replaced() {
    let (ours, theirs) = (Folder::new(), Folder::new());
    let now = SystemTime::now();
    ours.pki().ensure(&names(), now).unwrap();
    theirs.pki().ensure(&names(), now).unwrap();
    for name in ["server.crt", "server.key", "admin.key"] {
        fs::copy(theirs.path(name), ours.path(name)).unwrap();
    }
    let made = ours.pki().ensure(&names(), now).unwrap().made;
    assert!(made[0].ends_with("server.crt: the old one was signed by another authority"), "{made:?}");
    assert!(made[1].ends_with("admin.crt: the old one does not fit its key"), "{made:?}");
}

#[test]
fn damaged_leaf_is_replaced() {
    let folder = Folder::new();
    folder.pki().ensure(&names(), SystemTime::now()).unwrap();
    fs::write(folder.path("server.crt"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    fs::remove_file(folder.path("admin.key")).unwrap();
    let made = folder.pki().ensure(&names(), SystemTime::now()).unwrap().made;
    assert!(made[0].contains("server.crt: the old one cannot be read"), "{made:?}");
    assert!(made[1].ends_with("admin.crt: there was none"), "{made:?}");
}

#[test]
fn authority_without_its_key_is_an_error_that_says_what_to_do() {
    let folder = Folder::new();
    folder.pki().ensure(&names(), SystemTime::now()).unwrap();
    fs::remove_file(folder.path("ca.key")).unwrap();
    let error = folder.pki().ensure(&names(), SystemTime::now()).unwrap_err().to_string();
    assert!(error.contains("ca.crt is there but"), "{error}");
    assert!(error.contains("to have a new authority made"), "{error}");
}

#[test]
fn interrupted_first_start_is_repeated() {
    let folder = Folder::new();
    folder.pki().ensure(&names(), SystemTime::now()).unwrap();
    for name in ["ca.crt", "server.crt", "server.key", "admin.crt", "admin.key"] {
        fs::remove_file(folder.path(name)).unwrap();
    }
    assert_eq!(folder.pki().ensure(&names(), SystemTime::now()).unwrap().made.len(), 3);
    for name in ["ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "admin.key"] {
        fs::write(folder.path(name), "").unwrap();
    }
    assert_eq!(folder.pki().ensure(&names(), SystemTime::now()).unwrap().made.len(), 3);
}

#[test]
fn sync_changes_no_file() {
    let folder = Folder::new();
    let before = folder.pki().ensure(&names(), SystemTime::now()).unwrap();
    folder.pki().sync().unwrap();
    let after = folder.pki().ensure(&names(), SystemTime::now()).unwrap();
    assert!(after.made.is_empty(), "{:?}", after.made);
    assert_eq!(before.authority, after.authority);
}

#[test]
fn authority_without_its_certificate_is_an_error_once_it_has_signed() {
    let folder = Folder::new();
    folder.pki().ensure(&names(), SystemTime::now()).unwrap();
    fs::remove_file(folder.path("ca.crt")).unwrap();
    let error = folder.pki().ensure(&names(), SystemTime::now()).unwrap_err().to_string();
    assert!(error.contains("ca.key is there but"), "{error}");
}

#[test]
fn damaged_authority_is_an_error_and_is_not_overwritten() {
    let folder = Folder::new();
    folder.pki().ensure(&names(), SystemTime::now()).unwrap();
    fs::copy(folder.path("admin.crt"), folder.path("ca.crt")).unwrap();
    let error = folder.pki().ensure(&names(), SystemTime::now()).unwrap_err().to_string();
    assert!(error.contains("it is no authority's certificate"), "{error}");
    assert_eq!(fs::read(folder.path("admin.crt")).unwrap(), fs::read(folder.path("ca.crt")).unwrap());
}

#[test]
fn debug_output_of_a_pair_withholds_its_key() {
    let pair = Pair { certificate: "public".into(), key: "secret".into() };
    assert!(!format!("{pair:?}").contains("secret"));
}

#[test]
fn kubeconfig_embeds_everything_and_has_mode_0600() {
    let folder = Folder::new();
    let material = folder.pki().ensure(&names(), SystemTime::now()).unwrap();
    let kubeconfig = Kubeconfig {
        server: "https://127.0.0.1:6443".into(),
        authority: &material.authority,
        user: ADMIN_USER,
        client: &material.admin,
        token: Some(&material.token.0),
    };
    let path = folder.path("kubeconfig");
    kubeconfig.write(&path).unwrap();
    assert_eq!(folder.mode("kubeconfig"), 0o600);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("    server: https://127.0.0.1:6443\n"), "{text}");
    assert!(text.contains(&format!("    token: {}\n", material.token.0)), "{text}");
    assert_eq!(folder.pki().ensure(&names(), SystemTime::now()).unwrap().token, material.token);
    assert!(!format!("{material:?}").contains(&material.token.0));
    assert!(text.contains("    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"), "{text}");

    let written = fs::metadata(&path).unwrap().modified().unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    kubeconfig.write(&path).unwrap();
    assert_eq!(folder.mode("kubeconfig"), 0o600);
    assert_eq!(
        fs::metadata(&path).unwrap().modified().unwrap(),
        written,
        "the same text is not written again"
    );
}

#[test]
fn client_certificate_has_every_group_and_is_one_of_the_authority() {
    let folder = Folder::new();
    let pki = folder.pki();
    let now = SystemTime::now();
    let groups = ["dev".to_owned(), "system:masters".to_owned(), "ö".to_owned()];
    let client = Client { user: "jane, \"x\"", groups: &groups, life: Duration::from_secs(60) };
    let missing = pki.issue(&client, now).unwrap_err().to_string();
    assert!(missing.contains("it is not there"), "{missing}");
    let material = pki.ensure(&names(), now).unwrap();
    let pair = pki.issue(&client, now).unwrap();

    let authorities = crate::tls::certificates(&material.authority).unwrap();
    let methods = auth::Authenticators {
        certificates: Some(auth::ClientAuthority::new(authorities).unwrap()),
        ..auth::Authenticators::default()
    };
    let chain = crate::tls::certificates(&pair.certificate).unwrap();
    let certified = methods.certify(&chain, None).unwrap();
    let headers = http::HeaderMap::new();
    let credentials = auth::Credentials { headers: &headers, path: "/", certified: Some(&certified) };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let caller = runtime.block_on(methods.authenticate(&credentials)).unwrap();
    assert_eq!(caller.user().name, "jane, \"x\"");
    assert_eq!(caller.user().groups, ["dev", "system:masters", "ö", "system:authenticated"]);
    // The key is the one of the certificate.
    let key = rcgen::KeyPair::from_pem(&pair.key).unwrap();
    let (_, parsed) = x509_parser::parse_x509_certificate(chain.first().unwrap()).unwrap();
    assert_eq!(parsed.public_key().subject_public_key.data.as_ref(), rcgen::PublicKeyData::der_bytes(&key));
    assert!(!parsed.is_ca());
}

#[test]
fn key_of_service_accounts_is_made_once_and_never_replaced() {
    let folder = Folder::new();
    let first = folder.pki().service_account_key().unwrap();
    assert!(first.made.is_some());
    assert_eq!(folder.mode("sa.key"), 0o600);
    let second = folder.pki().service_account_key().unwrap();
    assert_eq!((second.key.public().id(), second.made), (first.key.public().id(), None));
    fs::write(folder.path("sa.key"), "x").unwrap();
    let error = folder.pki().service_account_key().unwrap_err();
    assert!(matches!(error, Error::ServiceAccounts { .. }), "{error}");
    assert_eq!(fs::read_to_string(folder.path("sa.key")).unwrap(), "x");
    // A crash of the machine left an empty file.
    fs::write(folder.path("sa.key"), "").unwrap();
    assert!(folder.pki().service_account_key().unwrap().made.is_some());
}

#[test]
fn bundles_are_combined_without_what_has_expired() {
    let now = SystemTime::now();
    let authority = |when| Folder::new().pki().ensure(&names(), when).unwrap().authority;
    let (one, other) = (authority(now), authority(now));
    assert_eq!(combine(&["", &one], now), one);
    let both = format!("{one}{other}");
    assert_eq!(combine(&[&one, &other, &one], now), both);
    assert_eq!(combine(&["no bundle", &format!("a comment\r\n{both}")], now), both);
    let later = now + Duration::from_secs(100 * 365 * 24 * 3600);
    let newer = authority(later);
    assert_eq!(combine(&[&both, &newer], later), newer);
}
