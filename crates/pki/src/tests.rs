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
    let now = clock::now();
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
    folder.pki().ensure(&names(), clock::now()).unwrap();
    for key in ["ca.key", "server.key", "admin.key", "admin.token"] {
        assert_eq!(folder.mode(key), 0o600, "{key}");
    }
    assert_eq!(folder.mode("."), 0o700);
}

#[test]
fn wider_mode_of_a_key_is_corrected() {
    let folder = Folder::new();
    folder.pki().ensure(&names(), clock::now()).unwrap();
    fs::set_permissions(folder.path("server.key"), fs::Permissions::from_mode(0o644)).unwrap();
    folder.pki().ensure(&names(), clock::now()).unwrap();
    assert_eq!(folder.mode("server.key"), 0o600);
}

#[test]
fn serving_certificate_has_the_names_and_admin_certificate_the_user() {
    let folder = Folder::new();
    let material = folder.pki().ensure(&names(), clock::now()).unwrap();
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
    let now = clock::now();
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
    let now = clock::now();
    folder.pki().ensure(&names(), now).unwrap();
    assert!(folder.pki().ensure(&names(), now + 330 * DAY).unwrap().made.is_empty());
    assert_eq!(folder.pki().ensure(&names(), now + 340 * DAY).unwrap().made.len(), 2);
    assert!(folder.pki().ensure(&names(), now + 341 * DAY).unwrap().made.is_empty());
}

/// Everything in the folder, by name.
fn files(folder: &Folder) -> std::collections::BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder.path(".")).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

fn validity(certificate: &str) -> Validity {
    Validity::read(certificate.as_bytes()).unwrap()
}

#[test]
fn authority_outside_of_its_life_is_an_error_and_nothing_is_changed() {
    let folder = Folder::new();
    let now = clock::now();
    folder.pki().ensure(&names(), now).unwrap();
    let before = files(&folder);
    for (at, says) in [
        (now - 365 * DAY, "is not valid yet: it is valid from "),
        (now + 3651 * DAY, "has expired: it is valid from "),
    ] {
        let error = folder.pki().ensure(&names(), at).unwrap_err().to_string();
        assert!(error.contains(&format!("ca.crt {says}")), "{error}");
        let clock = validity::shown(validity::seconds(at));
        for part in [clock.as_str(), "set it right", "keelson renew-authority"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let error = folder.pki().issue(&client(), at).unwrap_err().to_string();
        assert!(error.contains("the clock says "), "{error}");
    }
    assert_eq!(files(&folder), before);
    assert!(folder.pki().ensure(&names(), now).unwrap().made.is_empty());
}

#[test]
fn clock_that_is_behind_by_hours_changes_nothing() {
    let folder = Folder::new();
    let now = clock::now();
    folder.pki().ensure(&names(), now).unwrap();
    let hour = Duration::from_secs(3600);
    for behind in [hour, 61 * Duration::from_secs(60), 14 * hour] {
        assert!(folder.pki().ensure(&names(), now - behind).unwrap().made.is_empty());
    }
}

/// Leaves that are made by a wrong clock are valid by the right one, or are replaced once; those of a right
/// one come back.
#[test]
fn leaves_of_wrong_clocks_are_replaced_once_and_stay_within_the_authority() {
    let folder = Folder::new();
    let begin = clock::now();
    let authority = validity(&folder.pki().ensure(&names(), begin).unwrap().authority);
    let now = begin + 1000 * DAY;
    folder.pki().ensure(&names(), now).unwrap();
    for (clock, makes) in [
        (now + 365 * DAY, 2),
        (now, 2),
        (now - 365 * DAY, 2),
        (now, 2),
        (now + 10 * DAY, 0),
        (now - 10 * DAY, 0),
        // The authority ends soon: so do the leaves, and new ones would end no later.
        (begin + 3640 * DAY, 2),
        (begin + 3649 * DAY, 0),
        (now, 2),
    ] {
        let material = folder.pki().ensure(&names(), clock).unwrap();
        assert_eq!(material.made.len(), makes, "{:?}", material.made);
        for leaf in [&material.serving, &material.admin].map(|pair| validity(&pair.certificate)) {
            assert_eq!(leaf.fault(clock), None);
            assert_eq!(leaf.within(authority), leaf);
            assert_eq!(leaf.not_before, authority.not_before, "also a clock that is behind finds it valid");
        }
        assert_eq!(validity(&material.authority), authority);
        assert_eq!(material.authority_ends.is_some(), clock > begin + 3560 * DAY);
        assert!(folder.pki().ensure(&names(), clock).unwrap().made.is_empty());
    }
}

#[test]
fn client_certificates_end_with_their_authority() {
    let folder = Folder::new();
    let now = clock::now();
    let authority = validity(&folder.pki().ensure(&names(), now).unwrap().authority);
    let long = Client { life: 20_000 * DAY, ..client() };
    let issued = validity(&folder.pki().issue(&long, now).unwrap().certificate);
    assert_eq!(issued.not_after, authority.not_after);
}

fn client() -> Client<'static> {
    Client { user: "jane", groups: &[], life: DAY }
}

#[test]
fn leaf_of_another_authority_or_key_is_replaced() {
    let (ours, theirs) = (Folder::new(), Folder::new());
    let now = clock::now();
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
    folder.pki().ensure(&names(), clock::now()).unwrap();
    fs::write(folder.path("server.crt"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    fs::remove_file(folder.path("admin.key")).unwrap();
    let made = folder.pki().ensure(&names(), clock::now()).unwrap().made;
    assert!(made[0].contains("server.crt: the old one cannot be read"), "{made:?}");
    assert!(made[1].ends_with("admin.crt: there was none"), "{made:?}");
}

#[test]
fn missing_or_empty_authority_of_a_used_folder_is_an_error_that_says_what_to_do() {
    for (names_of_files, says) in [
        (vec!["ca.key"], "ca.crt is there but "),
        (vec!["ca.crt"], "ca.key is there but "),
        (vec!["ca.crt", "ca.key"], "the data directory was used before, but "),
    ] {
        for spoil in [|path: PathBuf| fs::remove_file(path).unwrap(), |path| fs::write(path, "").unwrap()] {
            let folder = Folder::new();
            folder.pki().ensure(&names(), clock::now()).unwrap();
            names_of_files.iter().for_each(|name| spoil(folder.path(name)));
            let before = files(&folder);
            let error = folder.pki().ensure(&names(), clock::now()).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("missing or empty"), "{error}");
            assert!(error.contains("put ") && error.contains("keelson renew-authority --new-key"), "{error}");
            assert_eq!(files(&folder), before);
        }
    }
}

#[test]
fn keys_are_not_made_beside_a_used_store() {
    let folder = Folder::new();
    let pki = folder.pki().beside_used_store();
    let error = pki.ensure(&names(), clock::now()).unwrap_err();
    assert!(matches!(error, Error::AuthorityIsMissing { .. }), "{error}");
    let error = pki.service_account_key().unwrap_err();
    assert!(matches!(error, Error::ServiceAccountKeyIsMissing { .. }), "{error}");
    assert!(files(&folder).is_empty());
    folder.pki().service_account_key().unwrap();
    // A first start with the key of service accounts alone was interrupted.
    folder.pki().ensure(&names(), clock::now()).unwrap();
    assert!(pki.ensure(&names(), clock::now()).unwrap().made.is_empty());
    pki.service_account_key().unwrap();
}

#[test]
fn interrupted_first_start_is_repeated() {
    let folder = Folder::new();
    folder.pki().ensure(&names(), clock::now()).unwrap();
    for name in ["ca.crt", "server.crt", "server.key", "admin.crt", "admin.key"] {
        fs::remove_file(folder.path(name)).unwrap();
    }
    assert_eq!(folder.pki().ensure(&names(), clock::now()).unwrap().made.len(), 3);
    for name in ["ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "admin.key"] {
        fs::write(folder.path(name), "").unwrap();
    }
    assert_eq!(folder.pki().ensure(&names(), clock::now()).unwrap().made.len(), 3);
}

#[test]
fn damaged_authority_is_an_error_and_is_not_overwritten() {
    let folder = Folder::new();
    folder.pki().ensure(&names(), clock::now()).unwrap();
    fs::copy(folder.path("admin.crt"), folder.path("ca.crt")).unwrap();
    let error = folder.pki().ensure(&names(), clock::now()).unwrap_err().to_string();
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
    let material = folder.pki().ensure(&names(), clock::now()).unwrap();
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
    assert_eq!(folder.pki().ensure(&names(), clock::now()).unwrap().token, material.token);
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
    let now = clock::now();
    let groups = ["dev".to_owned(), "system:masters".to_owned(), "ö".to_owned()];
    let client = Client { user: "jane, \"x\"", groups: &groups, life: Duration::from_secs(60) };
    let missing = pki.issue(&client, now).unwrap_err().to_string();
    assert!(missing.contains("it is not there"), "{missing}");
    let material = pki.ensure(&names(), now).unwrap();
    let pair = pki.issue(&client, now).unwrap();

    let authorities = certificates(&material.authority).unwrap();
    let methods = auth::Authenticators {
        certificates: Some(auth::ClientAuthority::new(authorities).unwrap()),
        ..auth::Authenticators::default()
    };
    let chain = certificates(&pair.certificate).unwrap();
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
    folder.pki().ensure(&names(), clock::now()).unwrap();
    fs::write(folder.path("sa.key"), "x").unwrap();
    let error = folder.pki().service_account_key().unwrap_err();
    assert!(matches!(error, Error::ServiceAccounts { .. }), "{error}");
    assert!(error.to_string().contains("keelson renew-service-account-key"), "{error}");
    assert_eq!(fs::read_to_string(folder.path("sa.key")).unwrap(), "x");
    for spoil in [|path: PathBuf| fs::write(path, "").unwrap(), |path| fs::remove_file(path).unwrap()] {
        spoil(folder.path("sa.key"));
        let error = folder.pki().service_account_key().unwrap_err();
        assert!(matches!(error, Error::ServiceAccountKeyIsMissing { .. }), "{error}");
        assert!(error.to_string().contains("keelson renew-service-account-key"), "{error}");
    }
    let renewed = folder.pki().renew_service_account_key(clock::now()).unwrap();
    assert!(renewed.copies.is_empty(), "there was nothing to copy");
    let renewed = folder.pki().renew_service_account_key(clock::now()).unwrap();
    assert_eq!(renewed.copies.len(), 1);
    assert_ne!(folder.pki().service_account_key().unwrap().key.public().id(), first.key.public().id());
}

/// Who a certificate is of, by an authority.
fn is_signed_by(certificate: &str, authority: &str) -> bool {
    let [leaf, signer] =
        [certificate, authority].map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap());
    let (leaf, signer) =
        (X509Certificate::from_der(&leaf).unwrap().1, X509Certificate::from_der(&signer).unwrap().1);
    leaf.issuer().as_raw() == signer.subject().as_raw()
        && leaf.verify_signature(Some(signer.public_key())).is_ok()
}

#[test]
fn authority_renewed_with_its_key_keeps_what_it_has_signed() {
    let folder = Folder::new();
    let begin = clock::now();
    let before = folder.pki().ensure(&names(), begin).unwrap();
    let issued = folder.pki().issue(&client(), begin).unwrap();
    let key = fs::read(folder.path("ca.key")).unwrap();
    // Also one that has expired, or is not valid yet.
    for (round, now) in [begin + 4000 * DAY, begin - 4000 * DAY, begin].into_iter().enumerate() {
        let earlier = fs::read(folder.path("ca.crt")).unwrap();
        let renewal = folder.pki().renew_authority(RenewalKey::Same, now).unwrap();
        assert_eq!(renewal.certificate, folder.path("ca.crt"));
        assert_eq!(renewal.before, Some(validity(std::str::from_utf8(&earlier).unwrap())));
        let [copy] = renewal.copies.as_slice() else { panic!("{:?}", renewal.copies) };
        assert_eq!(fs::read(copy).unwrap(), earlier);
        let name = copy.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("ca.crt.") && name.ends_with('Z'), "{name}");
        assert_eq!(folder.mode(name), 0o600);
        assert_eq!(fs::read(folder.path("ca.key")).unwrap(), key);
        assert_eq!(files(&folder).keys().filter(|name| name.starts_with("ca.")).count(), 3 + round);

        let after = folder.pki().ensure(&names(), now).unwrap();
        assert_eq!(validity(&after.authority), renewal.validity);
        assert_eq!(renewal.validity.fault(now), None);
        assert_eq!(after.made.len(), 2, "the leaves are within the new authority: {:?}", after.made);
        for certificate in [&issued.certificate, &before.serving.certificate] {
            assert!(is_signed_by(certificate, &after.authority), "what it has signed stays valid");
        }
        assert!(
            is_signed_by(&after.serving.certificate, &before.authority),
            "old copies of it verify the server"
        );
        assert!(is_signed_by(&after.authority, &after.authority));
        let identifier = |pem: &str| {
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            let (_, parsed) = X509Certificate::from_der(&der).unwrap();
            parsed.extensions().iter().map(|one| (one.critical, one.value.to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(identifier(&after.authority), identifier(&before.authority));
    }
}

#[test]
fn authority_renewed_with_another_key_signs_leaves_anew() {
    let folder = Folder::new();
    let now = clock::now();
    let before = folder.pki().ensure(&names(), now).unwrap();
    let old = files(&folder);
    let renewal = folder.pki().renew_authority(RenewalKey::New, now).unwrap();
    let again = folder.pki().renew_authority(RenewalKey::New, now).unwrap();
    let copied: Vec<Vec<u8>> = renewal.copies.iter().map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(copied, [old["ca.key"].clone(), old["ca.crt"].clone()]);
    assert!(again.copies.iter().all(|copy| !renewal.copies.contains(copy)), "no copy is overwritten");
    let after = folder.pki().ensure(&names(), now).unwrap();
    assert_eq!(after.made.len(), 2, "{:?}", after.made);
    assert!(!is_signed_by(&before.admin.certificate, &after.authority));
    assert!(is_signed_by(&after.admin.certificate, &after.authority));
    assert_eq!(after.token, before.token);
    // Also where nothing can be read of the old one.
    fs::write(folder.path("ca.crt"), [0xff]).unwrap();
    fs::remove_file(folder.path("ca.key")).unwrap();
    assert!(folder.pki().renew_authority(RenewalKey::Same, now).is_err());
    let renewal = folder.pki().renew_authority(RenewalKey::New, now).unwrap();
    assert_eq!((renewal.before, renewal.copies.len()), (None, 1));
    assert!(folder.pki().ensure(&names(), now).is_ok());
}

#[test]
fn authority_that_another_has_signed_is_not_renewed_with_its_key() {
    let folder = Folder::new();
    folder.pki().ensure(&names(), clock::now()).unwrap();
    let root = Authority::make(clock::now()).unwrap();
    let key = rcgen::KeyPair::from_pem(&fs::read_to_string(folder.path("ca.key")).unwrap()).unwrap();
    let issuer = rcgen::Issuer::from_ca_cert_der(root.der(), root.key()).unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    fs::write(folder.path("ca.crt"), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    let error = folder.pki().renew_authority(RenewalKey::Same, clock::now()).unwrap_err().to_string();
    assert!(error.contains("another authority has signed it"), "{error}");
}

#[test]
fn no_temporary_file_is_left() {
    let folder = Folder::new();
    folder.pki().service_account_key().unwrap();
    folder.pki().ensure(&names(), clock::now()).unwrap();
    let mut expected = FILES.map(str::to_owned);
    expected.sort();
    assert_eq!(files(&folder).into_keys().collect::<Vec<_>>(), expected);
}

#[test]
fn bundles_are_combined_without_what_has_expired() {
    let now = clock::now();
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

#[test]
fn front_proxy_has_an_authority_of_its_own_that_is_replaced_when_it_has_ended() {
    let folder = Folder::new();
    let pki = folder.pki();
    let now = clock::now();
    let first = pki.front_proxy(now).unwrap();
    assert_eq!(first.made.len(), 2);
    let certificate = |made: &FrontProxy| std::fs::read_to_string(&made.certificate).unwrap();
    let before = certificate(&first);
    let again = pki.front_proxy(now).unwrap();
    assert!(again.made.is_empty());
    assert_eq!((again.authority.as_str(), certificate(&again)), (first.authority.as_str(), before.clone()));
    let main = pki.ensure(&names(), now).unwrap();
    assert_ne!(main.authority, first.authority);
    let later = pki.front_proxy(now + Duration::from_secs(4000 * 24 * 3600)).unwrap();
    assert_eq!(later.made.len(), 2);
    assert_ne!(later.authority, first.authority);
    assert_ne!(certificate(&later), before);
}
