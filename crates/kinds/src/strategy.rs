//! The strategy of a kind: hooks that the registry calls at fixed steps of the write pipeline and of a
//! delete.
//!
//! The steps are numbered as in the table at the top of `crates/registry/src/write.rs`.

use crate::object_meta;
use crate::{Gates, MetadataRules, ObjectOptions, Privileged, ResourceType};
use object::field;
use object::{Map, Value};
use schema::Type;

/// What a hook may know of the request.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The time of the request, RFC 3339 in UTC with seconds.
    pub now: &'a str,
    /// The user that sent the request.
    pub caller: Caller<'a>,
    /// The feature gates of the server.
    pub gates: Gates,
}

/// The user that sent a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// The user's name.
    pub name: &'a str,
    /// The user's uid.
    pub uid: &'a str,
    /// The user's groups.
    pub groups: &'a [String],
    /// The other attributes of the user, by key.
    pub extra: &'a [(String, Vec<String>)],
}

/// The rules that a validation hook finds ready: those for metadata, and those that the schema declares.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    served: &'a ResourceType,
    /// The type of the validated objects: in the working version.
    working: &'a Type,
    options: ObjectOptions,
    /// Takes the warnings that validation itself finds.
    warn: &'a dyn Fn(String),
    /// Runs work that takes more than some milliseconds.
    beside: fn(&mut dyn FnMut()),
}

impl<'a> Rules<'a> {
    /// For writes of a resource type; the validated objects have the type `working`, in the working version.
    pub fn new(served: &'a ResourceType, working: &'a Type) -> Self {
        Self { served, working, options: ObjectOptions::default(), warn: &|_| {}, beside: |work| work() }
    }

    /// The same, with the options of the server.
    #[must_use]
    pub fn with_options(self, options: ObjectOptions) -> Self {
        Self { options, ..self }
    }

    /// The same, with what takes the warnings that validation itself finds.
    #[must_use]
    pub fn with_warnings(self, warn: &'a dyn Fn(String)) -> Self {
        Self { warn, ..self }
    }

    /// The same, with what runs work that takes more than some milliseconds.
    #[must_use]
    pub fn with_blocking(self, beside: fn(&mut dyn FnMut())) -> Self {
        Self { beside, ..self }
    }

    /// Adds a warning for the client.
    pub fn warn(&self, warning: String) {
        (self.warn)(warning);
    }

    /// Runs work that takes more than some milliseconds, where it may block the thread.
    pub fn beside(&self, work: &mut dyn FnMut()) {
        (self.beside)(work);
    }

    /// Whether containers may be privileged.
    pub fn privileged(&self) -> Privileged {
        self.options.privileged
    }

    /// The feature gates of the server.
    pub fn gates(&self) -> Gates {
        self.options.gates
    }

    /// The kind of the request.
    pub fn kind(&self) -> &'a str {
        &self.served.kind
    }

    /// The group version of the request.
    pub fn api_version(&self) -> &'a str {
        &self.served.api_version
    }

    /// The errors of the metadata, with the kind's rule for names.
    pub fn metadata(&self, object: &Map) -> field::List {
        let mut errors = object_meta::validate(object, self.served.scope, self.served.strategy.name_rule());
        errors.append(self.finalizer_names(object));
        errors
    }

    /// The errors of a change of the metadata.
    pub fn metadata_update(&self, new: &Map, old: &Map) -> field::List {
        let mut errors = object_meta::validate_update(new, old);
        errors.append(self.finalizer_names(new));
        errors
    }

    fn finalizer_names(&self, object: &Map) -> field::List {
        match self.served.metadata_rules {
            MetadataRules::Core => object_meta::validate_finalizer_names(object),
            MetadataRules::General => field::List::new(),
        }
    }

    /// The errors of the constraints that the schema declares. Immutable fields are compared with `old`.
    pub fn declared(&self, new: &Map, old: Option<&Map>) -> field::List {
        schema::validate(self.working, new, old, &field::Path::UNSET)
    }
}

/// What a kind adds to the writes of its objects.
///
/// | step of the write pipeline | hooks |
/// |---|---|
/// | 1 decode, default, convert | [`conversion_fault`](Self::conversion_fault), [`default`](Self::default), or [`BuiltinConversion::default`](crate::BuiltinConversion::default) |
/// | 2 read | [`allow_create_on_update`](Self::allow_create_on_update) |
/// | 5 managed fields | [`complete`](Self::complete) |
/// | 8 resource version | [`allow_unconditional_update`](Self::allow_unconditional_update) |
/// | 9, before it: the name of a new object | [`names_itself`](Self::names_itself), [`name_rule`](Self::name_rule) |
/// | 10 preparation | [`preparation_warnings`](Self::preparation_warnings) and [`prepare_create`](Self::prepare_create), or one of [`prepare_update`](Self::prepare_update), [`prepare_status`](Self::prepare_status) and [`prepare_part`](Self::prepare_part), then [`bumps_generation`](Self::bumps_generation) |
/// | 11 validation | the `validate_` hook of the same name, then [`warnings`](Self::warnings) or [`status_warnings`](Self::status_warnings) |
/// | 14 commit | [`may_be_removed`](Self::may_be_removed), for an object with a `deletionTimestamp` |
///
/// A delete calls [`undeletable`](Self::undeletable), [`grace`](Self::grace),
/// [`deletes_in_two_phases`](Self::deletes_in_two_phases),
/// [`propagates_in_first_phase`](Self::propagates_in_first_phase), [`may_be_removed`](Self::may_be_removed)
/// and [`prepare_deletion`](Self::prepare_deletion); an unsafe one only
/// [`may_be_removed_unread`](Self::may_be_removed_unread).
///
/// Rules for every hook:
///
/// 1. Trees are in the storage version; those of a custom kind in the version of the request.
/// 2. A hook changes only the object that it gets as `&mut`. It does no IO and keeps no state.
/// 3. A hook does not touch `metadata` unless its doc says so: the registry owns name, namespace, uid,
///    timestamps, generation, resource version and managed fields.
/// 4. A write that lost a race runs again from step 2 on, so a hook may run several times for one request.
pub trait Strategy: Send + Sync {
    /// Sets defaults that depend on more than one field.
    ///
    /// Runs in step 1 on the body of a POST or PUT and in step 4 on the result of a patch or an apply, after
    /// the defaults that the schema declares. A version with a
    /// [`BuiltinConversion`](crate::BuiltinConversion) has defaults of its own instead, and this hook runs
    /// after validation. It runs then too, once more, for a write through a subresource.
    ///
    /// It fills absent fields and makes fields agree that say the same. Of `metadata` it may touch only
    /// labels and annotations that mirror fields. It does not know whether the object is new.
    fn default(&self, _object: &mut Map) {}

    /// Sets fields of an object that an older server has written without them.
    ///
    /// Runs when an object is read from a store of the reference, after [`default`](Self::default).
    /// `families` has the names of both address families, that of the default service addresses first.
    fn complete_stored(&self, _object: &mut Map, _families: [&'static str; 2]) {}

    /// Adds fields that the kind writes into every object, whatever the client sent.
    ///
    /// Runs at the start of step 5, before managed fields are computed, so that the client's field manager
    /// owns these fields. A new object may have no name yet. Does not run for an apply or for a scale.
    ///
    /// It may set labels and annotations. The final value may come from a later hook
    /// ([`prepare_create`](Self::prepare_create)).
    fn complete(&self, _object: &mut Map) {}

    /// Sets the fields of a new object that only the server decides, and drops the fields that a client may
    /// not set.
    ///
    /// Runs in step 10 of a create, after mutating admission and before validation, when the fields of
    /// [`crate::Kind::resets`] are gone. The object has its name and uid; the registry sets the generation
    /// afterwards.
    ///
    /// It may add labels, annotations and finalizers.
    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    /// Resets what an update of the object itself may not change, beside the fields of
    /// [`crate::Kind::resets`], which are reset before.
    ///
    /// Runs in step 10 of an update without a subresource, after mutating admission and before validation.
    /// The registry restores the generation before it, and uid, creation and deletion timestamps after it.
    ///
    /// It may set labels, annotations and finalizers.
    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    /// Resets what an update through the status subresource may not change, beside the fields of
    /// [`crate::Kind::resets`].
    ///
    /// Runs in step 10 of an update of `status`, in place of [`prepare_update`](Self::prepare_update).
    ///
    /// It may reset `metadata` ([`keep_metadata`]), but not `metadata.managedFields`.
    fn prepare_status(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    /// Resets what an update through another subresource may not change, beside the fields of
    /// [`crate::Kind::resets`].
    ///
    /// Runs in step 10 of an update of `finalize`, `approval`, `ephemeralcontainers` or `resize`, in place of
    /// [`prepare_update`](Self::prepare_update).
    fn prepare_part(&self, _part: crate::WrittenPart, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    /// Whether an update increments `metadata.generation`.
    ///
    /// Runs at the end of step 10, after the `prepare_` hook, for kinds whose generation is
    /// [counted](crate::Generation); never for an update of `status`. The default implementation says yes if
    /// anything outside of `metadata` and `status` differs.
    fn bumps_generation(&self, new: &Map, old: &Map) -> bool {
        differs_but_for(new, old, &["apiVersion", "kind", "metadata", "status"])
    }

    /// The field errors of an object, but for those of its metadata, in the order of the reference. `old` is
    /// the state that an update replaces.
    ///
    /// Runs in step 11 of a create and of an update of the object itself. The default implementation has the
    /// rules that the schema declares.
    fn validate_object(&self, object: &Map, old: Option<&Map>, rules: &Rules<'_>) -> field::List {
        rules.declared(object, old)
    }

    /// The field errors of what an update may not change. Runs in step 11 of an update of the object itself.
    fn validate_change(&self, _new: &Map, _old: &Map) -> field::List {
        field::List::new()
    }

    /// The field errors of a new object, all of them, in the order of the reference.
    ///
    /// Runs in step 11 of a create. The default implementation has the rules for metadata and those of
    /// [`validate_object`](Self::validate_object).
    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> field::List {
        let mut errors = rules.metadata(object);
        errors.append(self.validate_object(object, None, rules));
        errors
    }

    /// The field errors of an update of the object itself.
    ///
    /// Runs in step 11 after [`prepare_update`](Self::prepare_update). The registry puts the errors of any
    /// update of metadata before them. The default implementation runs the checks of
    /// [`crate::Kind::update_checks`].
    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> field::List {
        let mut errors = field::List::new();
        let (mut metadata, mut object) = (None, None);
        for check in rules.served.update_checks {
            errors.append(match check {
                Check::Metadata => metadata.get_or_insert_with(|| rules.metadata(new)).clone(),
                Check::MetadataChange => rules.metadata_update(new, old),
                Check::Object => {
                    object.get_or_insert_with(|| self.validate_object(new, Some(old), rules)).clone()
                }
                Check::Change => self.validate_change(new, old),
            });
        }
        errors
    }

    /// The field errors of an update of `status`.
    ///
    /// Runs in step 11 after [`prepare_status`](Self::prepare_status), in place of
    /// [`validate_update`](Self::validate_update).
    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> field::List {
        rules.metadata_update(new, old)
    }

    /// The field errors of an update through another subresource.
    ///
    /// Runs in step 11 after [`prepare_part`](Self::prepare_part), in place of
    /// [`validate_update`](Self::validate_update).
    fn validate_part(
        &self,
        _part: crate::WrittenPart,
        new: &Map,
        old: &Map,
        rules: &Rules<'_>,
    ) -> field::List {
        rules.metadata_update(new, old)
    }

    /// The warnings for a valid new state: deprecated fields, values that are allowed and hardly meant.
    ///
    /// Runs at the end of step 11 of a create, without `old`, and of an update of the object itself.
    fn warnings(&self, _new: &Map, _old: Option<&Map>) -> Vec<String> {
        Vec::new()
    }

    /// The warnings for what [`prepare_create`](Self::prepare_create) is about to replace. They go to the
    /// client even if the object is refused.
    ///
    /// Runs at the start of step 10 of a create.
    fn preparation_warnings(&self, _object: &Map) -> Vec<String> {
        Vec::new()
    }

    /// The warnings for a valid new status. Runs at the end of step 11 of an update of `status`.
    fn status_warnings(&self, _new: &Map) -> Vec<String> {
        Vec::new()
    }

    /// Makes what the first write would otherwise wait for.
    fn warm(&self) {}

    /// The format of `metadata.name`.
    ///
    /// Read before step 9, when a name is generated, and in step 11. The answer depends on the kind alone.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Why an object that has its type cannot be converted, in the words of the reference.
    ///
    /// Called in step 1 for the body of a create or an update, and in step 4 for what a patch or an apply
    /// makes.
    fn conversion_fault(&self, _object: &Map) -> Option<String> {
        None
    }

    /// Whether a new object without a name gets a UUID as its name, with or without `generateName`.
    ///
    /// Read before step 9 of a create. The answer depends on the kind alone.
    fn names_itself(&self) -> bool {
        false
    }

    /// Whether a PUT creates the object if it does not exist.
    ///
    /// Read in step 2. If not, the PUT gets 404. The answer depends on the kind alone.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether an update may leave out `metadata.resourceVersion` and so overwrite the newest state.
    ///
    /// Read in step 8. If not, such an update is invalid. The answer depends on the kind alone.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// The grace period of a deletion in seconds; `None` if the kind has no graceful deletion.
    ///
    /// Runs at the start of a delete, before the `deletionTimestamp` is set, and again for an object that
    /// already has one. `requested` is the `gracePeriodSeconds` of the request.
    fn grace(&self, _object: &Map, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Changes an object that a delete marks and does not remove yet.
    ///
    /// Runs after the registry set the `deletionTimestamp`, in the first phase of a kind that
    /// [deletes in two phases](Self::deletes_in_two_phases).
    ///
    /// It may add finalizers and change `status`. It may not change the deletion timestamp or remove
    /// finalizers.
    fn prepare_deletion(&self, _object: &mut Map, _context: &Context<'_>) {}

    /// The warning for a delete that does not say what becomes of dependents. Asked before anything else is
    /// done.
    fn warning_without_propagation_policy(&self) -> Option<&'static str> {
        None
    }

    /// Whether the first delete only sets the `deletionTimestamp`, without a grace period and with or without
    /// finalizers.
    ///
    /// Read by every delete. The answer depends on the kind alone.
    fn deletes_in_two_phases(&self) -> bool {
        false
    }

    /// Whether the first of two phases sets the finalizers that the propagation policy asks for.
    fn propagates_in_first_phase(&self) -> bool {
        true
    }

    /// Why the object of a name cannot be deleted by its name.
    fn undeletable(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Whether an object that cannot be read may be removed by an unsafe delete. The answer depends on the
    /// kind alone.
    fn may_be_removed_unread(&self) -> bool {
        true
    }

    /// Whether an object without finalizers in its metadata may be removed from the store.
    ///
    /// Runs in a delete, and before the commit of an update of an object that has a `deletionTimestamp`. A
    /// kind says no while it waits for something else, such as `spec.finalizers` of a namespace.
    fn may_be_removed(&self, _object: &Map) -> bool {
        true
    }
}

/// The strategy of a kind without hooks.
#[derive(Debug)]
pub struct NoHooks;

impl Strategy for NoHooks {}

/// A check of an update of the object itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The metadata, as that of a new object ([`Rules::metadata`]).
    Metadata,
    /// The change of the metadata ([`Rules::metadata_update`]).
    MetadataChange,
    /// The rest of the object ([`Strategy::validate_object`]).
    Object,
    /// What may not change ([`Strategy::validate_change`]).
    Change,
}

impl Check {
    /// The checks of a kind that declares none.
    pub const PLAIN: &'static [Self] = &[Self::MetadataChange, Self::Metadata, Self::Object, Self::Change];
}

/// The formats of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain (RFC 1123).
    Subdomain,
    /// A DNS label (RFC 1123).
    Label,
    /// A DNS label (RFC 1035).
    Label1035,
    /// Any text that is valid as a path segment.
    PathSegment,
    /// A key of a config map.
    ConfigMapKey,
    /// An IP address in canonical form. `generateName` is used as the name, without a suffix.
    IpAddress,
    /// `<group>.<resource>`: a DNS subdomain (RFC 1123), a dot, and a DNS label (RFC 1035).
    GroupAndResource,
}

/// Sets `key` of `new` to its value in `old`; removes it if `old` does not have it.
pub fn keep(new: &mut Map, old: &Map, key: &'static str) {
    match old.get(key) {
        Some(value) => drop(new.insert(key, value.clone())),
        None => drop(new.remove(key)),
    }
}

/// Sets every key of `new` but `keys` to its value in `old`.
pub fn keep_all_but(new: &mut Map, old: &Map, keys: &[&str]) {
    new.retain(|key, _| keys.contains(&key.as_str()));
    for (key, value) in old.iter().filter(|(key, _)| !keys.contains(&key.as_str())) {
        new.insert(key.clone(), value.clone());
    }
}

/// Resets the metadata fields that a status update may not change to their values in `old`.
pub fn keep_metadata(new: &mut Map, old: &Map) {
    let old = old.get("metadata").and_then(Value::as_map);
    let (Some(new), Some(old)) = (map_at(new, "metadata"), old) else { return };
    for key in [
        "deletionTimestamp",
        "generation",
        "selfLink",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ] {
        keep(new, old, key);
    }
}

/// Whether `new` and `old` differ in any key but `keys`.
pub fn differs_but_for(new: &Map, old: &Map, keys: &[&str]) -> bool {
    let rest = |map: &Map| map.keys().filter(|key| !keys.contains(&key.as_str())).count();
    rest(new) != rest(old)
        || new
            .iter()
            .filter(|(key, _)| !keys.contains(&key.as_str()))
            .any(|(key, value)| old.get(key) != Some(value))
}

/// The map at `key`, inserted if it is absent; `None` if the value is no map.
pub fn map_at<'a>(object: &'a mut Map, key: &'static str) -> Option<&'a mut Map> {
    object.get_or_insert_with(key, || Value::from(Map::new())).as_map_mut()
}
