//! `keelson renew-authority` and `keelson renew-service-account-key`: replace the keys that a server never
//! replaces by itself.

use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;

use pki::{Pki, Renewal, RenewalKey};

use super::{Arguments, Command, Error, Own};
use crate::OperationOptions;
use storage::DataDir;

pub(super) const AUTHORITY: Command = Command {
    name: "renew-authority",
    help: AUTHORITY_HELP,
    own: &[Own::Switch(NEW_KEY)],
    run: renew_authority,
};
pub(super) const SERVICE_ACCOUNTS: Command = Command {
    name: "renew-service-account-key",
    help: SERVICE_ACCOUNTS_HELP,
    own: &[],
    run: renew_service_account_key,
};

const NEW_KEY: &str = "new-key";

const AUTHORITY_HELP: &str = "\
keelson renew-authority [--new-key] [flags of the server]

Makes a new certificate of the data directory's authority, which is valid for ten years from now on. The clock has to be right.
The server has to be stopped; its next start makes its own and the administrator's certificates, and the kubeconfig. The old files are
kept beside the new ones: ca.crt.TIME, ca.key.TIME.

Without --new-key the authority keeps its key and its name: the certificates that it has signed stay valid, and clients that have
the old ca.crt verify the server with it for as long as that one is valid.

With --new-key everything that the authority has signed is void: every kubeconfig with a client certificate, and the certificates of
certificate signing requests, such as those of kubelets. It is for a key that others may know, or that is lost.

  --data-dir DIR         the data directory of the server (./keelson-data)
  --new-key              makes a new key, too
";

const SERVICE_ACCOUNTS_HELP: &str = "\
keelson renew-service-account-key [flags of the server]

Makes a new key of service account tokens in the data directory. It is for a key that others may know, or that is lost. The server has
to be stopped. The old key is kept beside the new one: sa.key.TIME. Tokens that the old key has signed are not accepted any more, unless
the server is started with both keys in --service-account-key-file: the output has the flags.

  --data-dir DIR         the data directory of the server (./keelson-data)
";

fn renew_authority(arguments: &Arguments, options: &OperationOptions) -> Result<String, Error> {
    let (data_dir, _lock) = lock(options)?;
    let key = if arguments.has(NEW_KEY) { RenewalKey::New } else { RenewalKey::Same };
    let now = clock::now();
    let renewal = Pki::new(data_dir.pki()).renew_authority(key, now)?;
    let mut out = format!("{}: {}\n", renewal.certificate.display(), renewal.validity);
    write_copies(&mut out, &renewal.copies);
    let text = match key {
        RenewalKey::Same => same_key(&renewal),
        RenewalKey::New => NEW_KEY_MADE.to_owned(),
    };
    out.push_str(&text);
    let kubeconfig = data_dir.kubeconfig();
    let _ = writeln!(
        out,
        "The next start of the server writes {} anew; config maps with the authority (kube-root-ca.crt, cluster-info) follow by \
         themselves.",
        kubeconfig.display()
    );
    Ok(out)
}

const NEW_KEY_MADE: &str = "\
The key is a new one. Void are: every kubeconfig that was handed out, every certificate of `keelson kubeconfig`, and every certificate of a
certificate signing request (kubelets have to join again). Hand out the new ca.crt, new kubeconfigs (`keelson kubeconfig`) and the
administrator's kubeconfig. Tokens stay valid.
";

fn same_key(renewal: &Renewal) -> String {
    let mut out = "The key is the same: certificates that the authority has signed stay valid for as long as they say.\n".to_owned();
    let Some(before) = renewal.before else { return out };
    let [first, last] = before.first_and_last();
    let _ = writeln!(
        out,
        "Clients with the old ca.crt, as in kubeconfigs that were handed out, accept the server from {first} to {last} only: hand out the \
         new ca.crt, or new kubeconfigs."
    );
    out
}

fn renew_service_account_key(_: &Arguments, options: &OperationOptions) -> Result<String, Error> {
    let (data_dir, _lock) = lock(options)?;
    let renewal = Pki::new(data_dir.pki()).renew_service_account_key(clock::now())?;
    let file = renewal.file.display();
    let issuers = &options.issuers;
    let issuer = issuers.first().map(String::as_str).unwrap_or_default();
    let mut out = format!("{file}: a new key of service account tokens\n");
    write_copies(&mut out, &renewal.copies);
    out.push_str("Tokens of service accounts that were issued before are not accepted any more: pods get new ones when they start again.\n");
    if let Some(copy) = renewal.copies.first() {
        let _ = writeln!(
            out,
            "To accept them until they expire, start the server with --service-account-issuer={issuer} \
             --service-account-signing-key-file={file} --service-account-key-file={file} --service-account-key-file={}",
            copy.display()
        );
    }
    Ok(out)
}

fn write_copies(out: &mut String, copies: &[PathBuf]) {
    for copy in copies {
        let _ = writeln!(out, "The old file is kept: {}", copy.display());
    }
}

/// The data directory of a server that has run, and does not run now.
fn lock(options: &OperationOptions) -> Result<(DataDir, File), Error> {
    let data_dir = DataDir::at(&options.storage.data_dir)?;
    let was_used = [data_dir.store(), data_dir.pki(), data_dir.kubeconfig()].iter().any(|part| part.exists());
    if !was_used {
        return Err(Error::NeverUsed { path: data_dir.path().to_owned() });
    }
    match data_dir.lock_alone() {
        Ok(Some(lock)) => Ok((data_dir, lock)),
        Ok(None) => Err(Error::InUse { path: data_dir.path().to_owned() }),
        Err(cause) => Err(Error::Directory { path: data_dir.path().to_owned(), cause }),
    }
}
