use super::fake::{FakeKey, FakeSigner};
use super::*;
use auth::service_account::{Binding, Grant, Reference, TokenIssuer};
use std::path::PathBuf;

struct Place {
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    Place { socket: folder.path().join("signer.sock"), _folder: folder }
}

impl Place {
    async fn connect(&self) -> Result<(Arc<TokenSigner>, Duration), String> {
        TokenSigner::connect(&self.socket.display().to_string()).await
    }
}

fn grant() -> Grant {
    let account = Reference { name: "a".into(), uid: "u".into() };
    Grant {
        namespace: "n".into(),
        account,
        binding: Binding::None,
        audiences: Vec::new(),
        issued: 0,
        lifetime: 600,
        warn_after: None,
        id: "i".into(),
    }
}

#[tokio::test]
async fn program_signs_and_its_keys_are_kept() {
    let place = place();
    let fake = FakeSigner::start(&place.socket);
    let (signer, longest) = place.connect().await.unwrap();
    assert_eq!(longest, Duration::from_secs(24 * 3600));
    assert_eq!(signer.keys().published().keys().len(), 1);
    assert!((3590..=3600).contains(&signer.max_age()));
    let issuer = TokenIssuer::External { name: "i".into(), signer: signer.clone() };
    assert_eq!(issuer.issue(&grant()).await.unwrap().split('.').count(), 3);
    assert_eq!(fake.fetches(), 1, "the key is known");

    // The same answer is the same state; another one is another.
    signer.refresh().await.unwrap();
    assert_eq!(signer.keys().generation, 1);
    fake.set(|behaviour| behaviour.keys.push(FakeKey { is_excluded: true, ..FakeKey::new("two") }));
    signer.refresh().await.unwrap();
    let keys = signer.keys();
    assert_eq!((keys.generation, keys.all().keys().len(), keys.published().keys().len()), (2, 2, 1));
    fake.set(|behaviour| behaviour.time += 1);
    signer.refresh().await.unwrap();
    assert_eq!(signer.keys().generation, 3);

    fake.set(|behaviour| behaviour.refuses = Some("no".into()));
    let why = issuer.issue(&grant()).await.unwrap_err().to_string();
    assert_eq!(why, "while signing jwt: rpc error: code = Internal desc = no");
    assert!(signer.refresh().await.is_err());
    assert_eq!(signer.keys().generation, 3, "the keys from before count");
}

#[tokio::test]
async fn keys_are_asked_for_again_when_the_program_said() {
    let place = place();
    let fake = FakeSigner::start(&place.socket);
    fake.set(|behaviour| behaviour.refresh = 1);
    let (signer, _) = place.connect().await.unwrap();
    fake.set(|behaviour| behaviour.keys.push(FakeKey::new("two")));
    while signer.keys().all().keys().len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn program_with_unusable_answers_is_no_signer() {
    let place = place();
    let fake = FakeSigner::start(&place.socket);
    let filling = "while setting up external-jwt-signer: while initially filling key cache: while performing initial cache fill: while fetching token verification keys: ";
    let refused = async || place.connect().await.map(drop).unwrap_err();
    fake.set(|behaviour| behaviour.refresh = 0);
    assert_eq!(refused().await, format!("{filling}found invalid refresh hint (0s)"));
    fake.set(|behaviour| (behaviour.refresh, behaviour.keys[0].id) = (1, String::new()));
    assert_eq!(refused().await, format!("{filling}found invalid public key id \"\""));
    fake.set(|behaviour| behaviour.keys.clear());
    assert_eq!(refused().await, format!("{filling}found no keys"));
    fake.set(|behaviour| (behaviour.keys, behaviour.longest) = (vec![FakeKey::new("one")], 599));
    assert_eq!(
        refused().await,
        "max token life supported by external-jwt-signer (599s) is less than acceptable (min 600s)"
    );
    fake.set(|behaviour| behaviour.refuses = Some("not yet".into()));
    assert_eq!(
        refused().await,
        format!(
            "{filling}while getting externally supported jwt signing keys: rpc error: code = Internal desc = not yet"
        )
    );
}
