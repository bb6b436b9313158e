//! The stored objects of a kind, and the versions that their bytes can be in.
//!
//! The version of stored bytes is a fact of each object: they begin with their kind and version. Objects that
//! were written while another version was the storage version are read by the version they name, and
//! converted. They are written anew in the storage version when they change.
//!
//! A request works on trees in the *working version*. For a built-in kind that is the storage version,
//! whatever the request names, so that rules are written once. For a custom kind it is the version of the
//! request: its schema decides, and what the conversion of its author loses is lost on the way to the store,
//! as in the reference.
//!
//! Work on the metadata alone does not ask the author of a conversion: it is done on the object *in place*,
//! in the version of its bytes, and committed in that version ([`InPlace`]). So a conversion that fails does
//! not stop the garbage collector or the end of a namespace. The delete of a client is refused if the webhook
//! answers and does not convert the object, and carried out if it does not answer.
//!
//! The bytes of a custom resource are served as they are if they are what its schema makes of them. A
//! definition that changed can have added defaults, or taken fields away. Whether that changes an object is
//! determined for each object when it is read: see [`Fit`].

use crate::catalog::{Served, head};
use crate::convert::{Conversion, ConvertError, one, set_kind};
use crate::damaged::Damaged;
use crate::error::unknown_reason_500;
use bytes::Bytes;
use cache::{Entry, Fit, Resource};
use object::{Text, Value};
use schema::structural::Defaulted;
use schema::{Decoded, Limits, Ref, Status, Type, json};
use std::sync::Arc;

/// The objects of a kind, seen from one of its versions.
#[derive(Clone)]
pub struct Stored {
    /// The objects.
    pub resource: Arc<Resource>,
    /// Every version that their bytes can be in.
    pub versions: Arc<StoredVersions>,
    /// Whether this version is the working version. Always so for a custom kind, whose requests work on the
    /// requested version: its conversions are those of [`Stored::versions`].
    pub is_working_version: bool,
    /// The conversion between this version and the working version; none for a custom kind.
    pub conversion: Conversion,
    /// How requests that change only metadata find the version of the stored bytes.
    pub(crate) in_place: InPlace,
}

/// How requests that change only metadata find the version of the stored bytes.
#[derive(Clone)]
pub(crate) enum InPlace {
    /// Like all other requests: the conversions need no webhook.
    Plain,
    /// With the one of these whose working version is that of the bytes. Each writes its own version, served
    /// or not.
    Through(Arc<[Arc<Served>]>),
    /// This is one of those in `Through`: it reads and writes its own version only.
    Itself,
}

/// Every version that the bytes of a kind's objects can be in.
pub struct StoredVersions {
    /// The version that requests work on.
    pub working: ReadableVersion,
    /// The other versions.
    pub others: Vec<ReadableVersion>,
    /// The index of the storage version in `others`; `None` if it is the working version.
    pub(crate) storage: Option<usize>,
}

/// One version that bytes can be in.
pub struct ReadableVersion {
    /// The kind.
    pub kind: Text,
    /// `apps/v1`.
    pub api_version: Text,
    /// The type.
    pub ty: Ref<Type>,
    /// The conversion between this version and the working version.
    pub conversion: Conversion,
    head: Box<[u8]>,
}

impl StoredVersions {
    /// The version that new states are written in.
    pub fn storage(&self) -> &ReadableVersion {
        self.storage.and_then(|at| self.others.get(at)).unwrap_or(&self.working)
    }
}

impl ReadableVersion {
    /// A version with its type, and the conversion between it and the working version.
    pub fn new(kind: &Text, api_version: &Text, ty: Ref<Type>, conversion: Conversion) -> Self {
        let head = head(kind, api_version);
        Self { kind: kind.clone(), api_version: api_version.clone(), ty, conversion, head }
    }

    /// Whether bytes are in this version.
    fn is_version_of(&self, bytes: &[u8]) -> bool {
        // After the head comes the next field or the end of the object: `v1beta1` does not match `v1`.
        bytes.strip_prefix(&*self.head).is_some_and(|rest| matches!(rest.first(), Some(b',' | b'}')))
    }

    /// Adds the defaults of the current schema to a decoded object, and notes in the entry whether that
    /// changed it. An object that its defaults would make too large gets none of them.
    fn with_defaults(&self, entry: &Entry, decoded: Decoded) -> Value {
        let mut value = decoded.value;
        if self.ty.custom.is_none() {
            entry.note_fit(self.ty.schema_number(), Fit::AsIs);
            return value;
        }
        let is_completed = schema::default(&self.ty, &mut value) == Defaulted::Changed;
        let is_whole = decoded.strict.is_empty() && !decoded.pruned && !is_completed;
        entry.note_fit(self.ty.schema_number(), if is_whole { Fit::AsIs } else { Fit::Reencoded });
        value
    }

    /// Finishes a converted object of this version: sets its kind, and prunes the fields that the schema of a
    /// custom kind does not have. Malformed metadata of an embedded object is an error.
    pub(crate) fn adopt(&self, object: &mut Value) -> Result<(), Status> {
        if let Some(custom) = &self.ty.custom
            && let Some(malformed) = custom.prune(object, &mut Vec::new()).malformed
        {
            return Err(unknown_reason_500(malformed.to_string()));
        }
        set_kind(object, &self.kind, &self.api_version);
        Ok(())
    }
}

impl Stored {
    /// The type of objects in the working version.
    pub fn ty(&self) -> &Ref<Type> {
        &self.versions.working.ty
    }

    /// Whether this is for requests that change only metadata, and converts nothing.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self.in_place, InPlace::Itself)
    }

    /// Whether an object is in the working version.
    pub(crate) fn is_in_working_version(&self, entry: &Entry) -> bool {
        self.versions.working.is_version_of(entry.bytes())
    }

    /// Whether the stored bytes of an object can be sent as they are to clients that ask for the working
    /// version.
    pub fn is_as_worked_on(&self, entry: &Entry) -> bool {
        let working = &self.versions.working;
        working.is_version_of(entry.bytes()) && self.fits(entry, working)
    }

    /// Whether the stored metadata of an object is the same in every version. Conversion webhooks are not
    /// asked.
    pub fn has_metadata_as_stored(&self, entry: &Entry) -> bool {
        self.version_if_not_working(entry)
            .is_none_or(|version| !matches!(version.conversion, Conversion::Builtin(_)))
    }

    /// Whether writing an object again without a change would give the same bytes.
    pub(crate) fn is_as_written_today(&self, entry: &Entry) -> bool {
        let storage = self.versions.storage();
        !entry.is_stale() && storage.is_version_of(entry.bytes()) && self.fits(entry, storage)
    }

    /// Whether decoding an object with the current schema changes nothing. The entry keeps the result.
    fn fits(&self, entry: &Entry, version: &ReadableVersion) -> bool {
        if version.ty.custom.is_none() {
            return true;
        }
        let known = || entry.fit(version.ty.schema_number());
        let fit = known().or_else(|| self.decode_as_stored(entry).ok().and_then(|_| known()));
        fit == Some(Fit::AsIs)
    }

    /// Notes in the entry of a new state that its bytes fit the current schema, if that is known.
    pub(crate) fn note_written(&self, entry: &Entry, object: &Value) {
        let ty = self.ty();
        let is_known = ty.custom.is_none()
            || self.versions.storage.is_none()
                && schema::default(ty, &mut object.clone()) == Defaulted::Unchanged;
        if is_known {
            entry.note_fit(ty.schema_number(), Fit::AsIs);
        }
    }

    /// The tree of a stored object, in the working version.
    pub async fn decode(&self, entry: &Entry) -> Result<Value, Status> {
        self.to_working_version(entry, self.decode_or_refuse(entry)?).await
    }

    /// The trees of stored objects, in the working version. Those in other versions are converted together.
    pub(crate) async fn decode_all(&self, entries: &[Arc<Entry>]) -> Result<Vec<Value>, Status> {
        let mut objects = Vec::with_capacity(entries.len());
        for entry in entries {
            objects.push(self.decode_or_refuse(entry)?);
        }
        for version in &self.versions.others {
            let places = entries.iter().enumerate().filter(|(_, entry)| version.is_version_of(entry.bytes()));
            let places: Vec<usize> = places.map(|(at, _)| at).collect();
            let take = |at: &usize| objects.get_mut(*at).map(std::mem::take);
            let old = places.iter().filter_map(take).collect();
            let new = version.conversion.to_working(old, &self.versions.working.api_version).await?;
            for (at, mut object) in places.into_iter().zip(new) {
                self.versions.working.adopt(&mut object)?;
                objects.get_mut(at).into_iter().for_each(|place| *place = std::mem::take(&mut object));
            }
        }
        Ok(objects)
    }

    /// Fails if the conversion webhook answers and does not convert these objects to the working version. A
    /// webhook that does not answer is no failure here, and neither are bytes that cannot be decoded.
    pub(crate) async fn check_conversion(&self, entries: &[Arc<Entry>]) -> Result<(), Status> {
        let working = &self.versions.working;
        for version in self.versions.others.iter().filter(|version| version.conversion.waits()) {
            let entries = entries.iter().filter(|entry| version.is_version_of(entry.bytes()));
            let objects = entries.filter_map(|entry| self.decode_as_stored(entry).ok()).collect();
            match version.conversion.to_working(objects, &working.api_version).await {
                Ok(objects) => {
                    for mut object in objects {
                        working.adopt(&mut object)?;
                    }
                }
                Err(ConvertError::Failed(status)) => return Err(status),
                Err(ConvertError::Unreachable(_)) => {}
            }
        }
        Ok(())
    }

    /// The tree of a stored object, in the version of its bytes.
    pub(crate) fn decode_as_stored(&self, entry: &Entry) -> Result<Value, Damaged> {
        let version = self.version_if_not_working(entry).unwrap_or(&self.versions.working);
        match json::decode(&version.ty, entry.bytes(), &Limits::STORED) {
            Ok(decoded) => Ok(version.with_defaults(entry, decoded)),
            Err(error) => {
                log::error!(key = entry.key(), error:%; "a stored object cannot be decoded");
                Err(Damaged::undecodable(entry, &error))
            }
        }
    }

    /// Converts the tree of a stored object from the version of its bytes to the working version.
    pub(crate) async fn to_working_version(&self, entry: &Entry, object: Value) -> Result<Value, Status> {
        match self.version_if_not_working(entry) {
            Some(version) => self.import(version, object).await,
            None => Ok(object),
        }
    }

    /// Converts a tree of another version to the working version.
    async fn import(&self, version: &ReadableVersion, object: Value) -> Result<Value, Status> {
        let working = &self.versions.working;
        let converted = version.conversion.to_working(vec![object], &working.api_version).await?;
        let mut object = one(converted)?;
        working.adopt(&mut object)?;
        Ok(object)
    }

    /// Converts a tree of the version `api_version` to the working version. A tree of the working version
    /// stays as it is.
    pub(crate) async fn import_from(&self, api_version: &str, object: Value) -> Result<Value, Status> {
        match self.versions.others.iter().find(|version| version.api_version == api_version) {
            Some(version) => self.import(version, object).await,
            None => Ok(object),
        }
    }

    /// [`Self::import_from`] without waiting; `None` if the conversion needs a webhook.
    pub(crate) fn import_from_now(&self, api_version: &str, mut object: Value) -> Option<Value> {
        let version = self.versions.others.iter().find(|version| version.api_version == api_version);
        if let Some(version) = version {
            if version.conversion.waits() {
                return None;
            }
            version.conversion.to_working_now(&mut object);
            self.versions.working.adopt(&mut object).ok()?;
        }
        Some(object)
    }

    /// The tree of a stored object in the working version, without waiting.
    ///
    /// A conversion that calls a webhook is skipped: `kind` and `apiVersion` are set to the working version
    /// and fields that its schema does not have are pruned, but no field is converted. A caller that shows
    /// objects of a kind for which [`Served::read_waits`] is true uses [`Served::read`] instead.
    pub fn decode_now(&self, entry: &Entry) -> Result<Value, Status> {
        let mut object = self.decode_or_refuse(entry)?;
        let Some(version) = self.version_if_not_working(entry) else { return Ok(object) };
        version.conversion.to_working_now(&mut object);
        self.versions.working.adopt(&mut object)?;
        Ok(object)
    }

    fn decode_or_refuse(&self, entry: &Entry) -> Result<Value, Status> {
        let key = || format!("/{}/{}", self.resource.spec().prefix(), entry.key());
        self.decode_as_stored(entry).map_err(|damaged| damaged.status(&key()))
    }

    /// The version of bytes that are not in the working version.
    fn version_if_not_working(&self, entry: &Entry) -> Option<&ReadableVersion> {
        if self.versions.working.is_version_of(entry.bytes()) {
            return None;
        }
        self.versions.others.iter().find(|version| version.is_version_of(entry.bytes()))
    }

    /// A new state as it would be read after it was written, in the working version: with the defaults of the
    /// storage version of a custom kind. The response to a dry run shows it.
    pub(crate) async fn as_read(&self, object: Value) -> Result<Value, Status> {
        if self.ty().custom.is_none() {
            return Ok(object);
        }
        let storage = self.versions.storage();
        let Some(_) = self.versions.storage else { return Ok(defaulted(&storage.ty, object)) };
        let mut stored = storage.conversion.out_of_working(object, &storage.api_version).await?;
        storage.adopt(&mut stored)?;
        self.import(storage, defaulted(&storage.ty, stored)).await
    }

    /// The canonical bytes of a tree in the working version.
    pub(crate) async fn encode(&self, object: &Value) -> Result<Bytes, Status> {
        let mut out = Vec::with_capacity(1024);
        match self.versions.storage {
            None => json::encode(self.ty(), object, &mut out),
            Some(_) => {
                let storage = self.versions.storage();
                let mut object =
                    storage.conversion.out_of_working(object.clone(), &storage.api_version).await?;
                storage.adopt(&mut object)?;
                json::encode(&storage.ty, &object, &mut out);
            }
        }
        Ok(out.into())
    }
}

/// An object with the defaults of its schema. An object that its defaults would make too large gets none of
/// them.
fn defaulted(ty: &Type, mut object: Value) -> Value {
    schema::default(ty, &mut object);
    object
}
