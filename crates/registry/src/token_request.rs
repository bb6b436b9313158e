//! POST of a TokenRequest: a token of a service account.
//!
//! The request gets its defaults and managed fields, is admitted and validated, and returned with the token
//! in its status. Nothing is stored. The token is bound to the service account, and to the object that the
//! request names, by their uids.

use crate::convert::{map, map_mut};
use crate::error::status;
use crate::managed::put_fields;
use crate::object_meta::Stage;
use crate::{Answer, Content, Registry, Target, WriteOptions, WriteRequest, object_meta};
use admission::Operation;
use auth::service_account::{Binding, Grant, Published, Reference, TokenIssuer};
use cache::{Entry, Freshness};
use object::field::{self, Path};
use object::time::Time;
use object::{Key, Map, Value};
use schema::view::View as _;
use schema::views::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use schema::views::core::v1::Pod;
use schema::{Ref, Status};
use std::sync::Arc;

const GROUP: &str = "authentication.k8s.io";
const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";
const SPEC: Key = Key::known("spec");

/// The default of `expirationSeconds`.
const DEFAULT_LIFETIME: i64 = 60 * 60;
const SHORTEST_LIFETIME: i64 = 10 * 60;
const LONGEST_LIFETIME: i64 = 1 << 32;
/// `expirationSeconds` of the tokens of pods. Such a token is extended, because old clients do not reload it
/// when it is renewed.
const EXTENDED_LIFETIME_ASKED: i64 = 60 * 60 + 7;

/// The configuration of service account tokens.
#[derive(Debug)]
pub struct TokenIssuing {
    /// Signs the tokens.
    pub issuer: TokenIssuer,
    /// The audiences of the server: the default audiences of a token.
    pub audiences: Vec<String>,
    /// The longest lifetime of a token, in seconds: `--service-account-max-token-expiration`.
    pub longest: Option<i64>,
    /// Whether the tokens of pods are extended: `--service-account-extend-token-expiration`.
    pub extends: bool,
    /// The OpenID discovery documents, by which clients verify tokens; `None` if the issuer has none.
    pub discovery: Option<Published>,
    /// The longest lifetime of an extended token, in seconds.
    pub longest_extended: i64,
}

impl TokenIssuing {
    /// The lifetime of an extended token, in seconds, unless an external signer supports less.
    pub const EXTENDED_LIFETIME: i64 = 365 * 24 * 60 * 60;
}

impl Registry {
    /// Issues a token.
    pub(crate) async fn issue_token(
        &self,
        target: &Target<'_>,
        mut request: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let Some(issuing) = &self.config().tokens else { return Err(Status::unknown_resource()) };
        {
            let request = map_mut(&mut request)?;
            spec_mut(request)?
                .get_or_insert_with(TokenRequestSpec::EXPIRATION_SECONDS, || DEFAULT_LIFETIME.into());
            object_meta::fit_namespace(request, target.namespace)?;
            object_meta::wipe_system_fields(request);
            options.warnings.extend(object_meta::dedup_owners(request, Stage::BeforeAdmission));
        }
        put_fields(
            &Ref::Static(TokenRequest::schema()),
            API_VERSION,
            target.subresource_name(),
            &mut request,
            options,
        );
        let write = WriteRequest::write(target, options);
        let attributes = write.attributes(Operation::Create, None);
        let admission = &self.config().admission;
        admission.mutate(&attributes, Some(&mut request)).await?;
        let repeated = object_meta::dedup_owners(map_mut(&mut request)?, Stage::AfterAdmission);
        options.warnings.extend(repeated);
        check_names(target, map(&request)?)?;
        let account = self.find_object(target).await?.entry;
        let now = Time::now();
        complete(map_mut(&mut request)?, target, &issuing.audiences, now)?;
        validate(map(&request)?)?;
        let admitted = admission.validate(&attributes, Some(&request)).await?;
        let binding = self.binding(target, TokenRequest::of(map(&request)?).spec()).await?;
        let lifetime = lifetime(issuing, map_mut(&mut request)?, options)?;
        let grant = grant(issuing, &account, binding, map(&request)?, lifetime, now);
        let token = issuing
            .issuer
            .issue(&grant)
            .await
            .map_err(|error| Status::internal_error(&format!("failed to generate token: {error}")))?;
        admitted.committed().await;
        target
            .observation()
            .annotate("authentication.kubernetes.io/issued-credential-id", &format!("JTI={}", grant.id));
        let mut answered = Map::new();
        answered.insert("token", token);
        let expires = Time::from_unix(now.unix().saturating_add(lifetime));
        answered.insert("expirationTimestamp", expires.text());
        let object = map_mut(&mut request)?;
        object.insert("status", answered);
        object.insert("kind", KIND);
        object.insert("apiVersion", API_VERSION);
        Ok(Answer {
            code: 201,
            content: Content::Other { ty: Ref::Static(TokenRequest::schema()), value: request },
        })
    }

    /// The object that a token is bound to.
    async fn binding(&self, target: &Target<'_>, spec: TokenRequestSpec<'_>) -> Result<Binding, Status> {
        let Some(bound) = spec.bound_object_ref() else { return Ok(Binding::None) };
        let (group, version) = group_version(bound.api_version());
        let name = bound.name();
        match (group, bound.kind()) {
            ("", "Pod") => {
                let entry = self.object(target, "pods", target.namespace, name).await?;
                let decoded = self.decoded(target, "pods", &entry).await?;
                let pod = Pod::of(map(&decoded)?);
                let spec = pod.spec();
                if spec.service_account_name() != target.name {
                    return Err(Status::bad_request(format!(
                        "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                        object::quote::quote(target.name)
                    )));
                }
                let node = match spec.node_name() {
                    "" => None,
                    node => {
                        let found = self.lookup(target, "nodes", "", node).await?;
                        // The token names the node of the pod even if the node object does not exist.
                        let uid = found.map_or_else(String::new, |found| found.uid().to_owned());
                        Some(Reference { name: node.to_owned(), uid })
                    }
                };
                check_uid(bound, &entry)?;
                Ok(Binding::Pod { pod: reference(&entry), node })
            }
            ("", "Node") => {
                let entry = self.object(target, "nodes", "", name).await?;
                check_uid(bound, &entry)?;
                Ok(Binding::Node(reference(&entry)))
            }
            ("", "Secret") => {
                let entry = self.object(target, "secrets", target.namespace, name).await?;
                check_uid(bound, &entry)?;
                Ok(Binding::Secret(reference(&entry)))
            }
            (group, kind) => Err(Status::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            ))),
        }
    }

    /// An object of the core group.
    async fn object(
        &self,
        target: &Target<'_>,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Entry>, Status> {
        let found = self.lookup(target, resource, namespace, name).await?;
        found.ok_or_else(|| Status::not_found("", resource, name))
    }

    /// An object of the core group, if it exists.
    pub(crate) async fn lookup(
        &self,
        target: &Target<'_>,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Entry>>, Status> {
        let served = target.catalog.find("", "v1", resource).and_then(|served| served.stored.as_ref());
        let stored = served.ok_or_else(Status::unknown_resource)?;
        stored.resource.get(namespace, name, Freshness::MostRecent).await.map_err(status)
    }

    /// An object of the core group as a tree.
    pub(crate) async fn decoded(
        &self,
        target: &Target<'_>,
        resource: &str,
        entry: &Entry,
    ) -> Result<Value, Status> {
        let served = target.catalog.find("", "v1", resource).and_then(|served| served.stored.as_ref());
        served.ok_or_else(Status::unknown_resource)?.decode(entry).await
    }
}

fn spec_mut(request: &mut Map) -> Result<&mut Map, Status> {
    let spec = request.get_or_insert_with(SPEC, || Map::new().into());
    spec.as_map_mut().ok_or_else(|| Status::internal_error("a request without a spec"))
}

/// Refuses a name that is not that of the service account.
fn check_names(target: &Target<'_>, request: &Map) -> Result<(), Status> {
    let name = object_meta::text(request, "name");
    if name.is_empty() || name == target.name {
        return Ok(());
    }
    let why = "must match the service account name if specified";
    let errors = field::Error::invalid(&Path::new("metadata").child("name"), name, why).into();
    Err(Status::invalid(GROUP, KIND, target.name, &errors))
}

/// Sets the default audiences and the metadata of a request.
fn complete(request: &mut Map, target: &Target<'_>, audiences: &[String], now: Time) -> Result<(), Status> {
    if TokenRequest::of(request).spec().audiences().is_empty() {
        let audiences: Vec<Value> = audiences.iter().map(|audience| audience.as_str().into()).collect();
        spec_mut(request)?.insert(TokenRequestSpec::AUDIENCES, audiences);
    }
    object_meta::set(request, "name", target.name);
    object_meta::set(request, "namespace", target.namespace);
    object_meta::set(request, "creationTimestamp", now.text());
    request.remove("status");
    Ok(())
}

fn validate(request: &Map) -> Result<(), Status> {
    let seconds = TokenRequest::of(request).spec().expiration_seconds().unwrap_or(DEFAULT_LIFETIME);
    let why = match seconds {
        ..SHORTEST_LIFETIME => "may not specify a duration less than 10 minutes",
        SHORTEST_LIFETIME..=LONGEST_LIFETIME => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let path = Path::new("spec");
    let errors = field::Error::invalid(&path.child("expirationSeconds"), seconds, why).into();
    Err(Status::invalid(GROUP, KIND, "", &errors))
}

/// The group and version of an `apiVersion`; both are empty if it has more than one slash.
fn group_version(api_version: &str) -> (&str, &str) {
    match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, version)) if version.contains('/') => ("", ""),
        Some(both) => both,
    }
}

fn check_uid(bound: BoundObjectReference<'_>, entry: &Entry) -> Result<(), Status> {
    let asked = bound.uid();
    if asked.is_empty() || asked == entry.uid() {
        return Ok(());
    }
    let why = format!(
        "the UID in the bound object reference ({asked}) does not match the UID in record. The object might have been \
         deleted and then recreated"
    );
    Err(Status::conflict("", bound.kind(), bound.name(), &why))
}

fn reference(entry: &Entry) -> Reference {
    Reference { name: entry.name().to_owned(), uid: entry.uid().to_owned() }
}

/// The lifetime of the token in seconds. A shortened one is set in the request.
fn lifetime(issuing: &TokenIssuing, request: &mut Map, options: &WriteOptions) -> Result<i64, Status> {
    let asked = TokenRequest::of(request).spec().expiration_seconds().unwrap_or(DEFAULT_LIFETIME);
    match issuing.longest {
        Some(longest) if asked > longest => {
            let warning = format!("requested expiration of {asked} seconds shortened to {longest} seconds");
            options.warnings.extend([warning]);
            spec_mut(request)?.insert(TokenRequestSpec::EXPIRATION_SECONDS, longest);
            Ok(longest)
        }
        _ => Ok(asked),
    }
}

/// The claims of the token.
fn grant(
    issuing: &TokenIssuing,
    account: &Entry,
    binding: Binding,
    request: &Map,
    lifetime: i64,
    now: Time,
) -> Grant {
    let audiences: Vec<String> =
        TokenRequest::of(request).spec().audiences().iter().map(str::to_owned).collect();
    let is_extended = issuing.extends
        && lifetime == EXTENDED_LIFETIME_ASKED
        && matches!(binding, Binding::Pod { .. })
        && audiences.iter().all(|audience| issuing.audiences.contains(audience));
    Grant {
        namespace: account.namespace().to_owned(),
        account: reference(account),
        binding,
        audiences,
        issued: now.unix(),
        lifetime: if is_extended { issuing.longest_extended } else { lifetime },
        warn_after: is_extended.then_some(lifetime),
        id: object::name::random_uid().to_string(),
    }
}
