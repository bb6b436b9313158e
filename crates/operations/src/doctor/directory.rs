//! What can be wrong with a data directory beside its store.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use object::time::Time;

use super::findings::{Finding, Outcome};
use super::problems::{self, Problem};
use crate::OperationOptions;
use storage::DataDir;

/// The access of everybody but the owner.
const OTHERS: u32 = 0o077;
/// So long before its end, a certificate is to be replaced, in seconds.
const SOON: i64 = 30 * 24 * 3600;
/// The same of the authority, which a person has to replace.
const AUTHORITY_SOON: i64 = 90 * 24 * 3600;

/// What is wrong with the files of a data directory. One that no server has used has none.
pub(super) fn check(data_dir: &DataDir, options: &OperationOptions, now: Time) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pki = data_dir.pki();
    for path in [data_dir.kubeconfig(), data_dir.store(), pki.clone()] {
        findings.extend(check_access(&path));
    }
    if !pki.is_dir() {
        return findings;
    }
    let is_there = |name: &str| pki.join(name).exists();
    for name in pki::FILES {
        let path = pki.join(name);
        if path.exists() {
            findings.extend(check_access(&path));
            findings.extend(check_certificate(&path, now));
            continue;
        }
        let (problem, says) = match name {
            pki::SERVICE_ACCOUNTS if options.has_signing_key_file => continue,
            pki::SERVICE_ACCOUNTS => {
                (&problems::KEY_MISSING, "tokens of service accounts are signed with it")
            }
            "ca.crt" if is_there("ca.key") => {
                (&problems::AUTHORITY_INCOMPLETE, "its key is there, and it is not")
            }
            "ca.key" if is_there("ca.crt") => {
                (&problems::AUTHORITY_INCOMPLETE, "its certificate is there, and it is not")
            }
            "ca.crt" | "ca.key" => (&problems::KEY_MISSING, "it is a part of the authority"),
            _ => (&problems::FILE_MISSING, "it is not there"),
        };
        findings.push(finding(problem, &path, says));
    }
    findings
}

fn check_access(path: &Path) -> Option<Finding> {
    let mode = fs::symlink_metadata(path).ok()?.mode();
    let is_open = mode & OTHERS != 0;
    is_open.then(|| finding(&problems::FILE_OPEN, path, format!("its mode is {:o}", mode & 0o777)))
}

fn check_certificate(path: &Path, now: Time) -> Option<Finding> {
    if path.extension()? != "crt" {
        return None;
    }
    let is_authority = path.file_name()? == "ca.crt";
    let (expired, ends, soon) = match is_authority {
        true => (&problems::AUTHORITY_NOT_VALID, &problems::AUTHORITY_ENDS, AUTHORITY_SOON),
        false => (&problems::CERTIFICATE_EXPIRED, &problems::CERTIFICATE_ENDS, SOON),
    };
    let Some(validity) = fs::read(path).ok().and_then(|pem| pki::Validity::read(&pem)) else {
        return Some(finding(expired, path, "it cannot be read as a certificate"));
    };
    let [begin, end] =
        [validity.not_before, validity.not_after].map(|at| i64::try_from(at).unwrap_or(i64::MAX));
    if is_authority && now.unix() < begin {
        return Some(finding(expired, path, format!("it begins at {}", Time::from_unix(begin))));
    }
    let problem = match end - now.unix() {
        ..=0 => expired,
        left if left <= soon => ends,
        _ => return None,
    };
    Some(finding(problem, path, format!("it ends at {}", Time::from_unix(end))))
}

/// A finding about a file.
pub(super) fn finding(problem: &'static Problem, path: &Path, says: impl Into<String>) -> Finding {
    Finding {
        problem,
        key: path.display().to_string(),
        says: says.into(),
        entry: None,
        outcome: Outcome::NotAsked,
    }
}
