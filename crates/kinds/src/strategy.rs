//! The behaviour of a kind: hooks that the registry calls at fixed points of a write.

use object::field;
use object::{Map, Value};

/// What a hook may know of the request.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The time of the request, RFC 3339 in UTC with seconds.
    pub now: &'a str,
    /// Who is asking.
    pub caller: Caller<'a>,
}

/// Who is asking.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// The user's name.
    pub name: &'a str,
    /// The user's uid.
    pub uid: &'a str,
    /// The user's groups.
    pub groups: &'a [String],
    /// Everything else that is known of the user.
    pub extra: &'a [(String, Vec<String>)],
}

/// What a kind adds to the writes of its objects. Hooks get trees in the stored version.
///
/// A hook changes nothing but the object it is given, and leaves `metadata` alone except where it says so: names, uid,
/// times, generation, managed fields and finalizers of deletion are the registry's.
pub trait Strategy: Send + Sync {
    /// Sets defaults that depend on more than one field. Runs on every object that comes from a client, after the
    /// static defaults of the schema.
    fn default(&self, _object: &mut Map) {}

    /// Adds what the API always writes of an object, whatever a client sent. Runs before it is noted who owns what, so that
    /// the writer owns this too; hooks that run later give it its value.
    fn complete(&self, _object: &mut Map) {}

    /// Runs before a new object is checked, when it has its name and uid: sets what only the server decides, drops what a client
    /// may not set.
    /// Without a word from the kind, what its status subresource governs is dropped.
    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        object.remove("status");
    }

    /// Runs before a changed object is checked: takes back what this way of writing may not change. Without a word from the
    /// kind, the status stays what it was.
    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep(new, old, "status");
    }

    /// Runs before a changed status is checked. Without a word from the kind, everything else but metadata stays what it was.
    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep_all_but(new, old, &["apiVersion", "kind", "metadata", "status"]);
    }

    /// Runs before a change through any other subresource is checked.
    fn prepare_part(&self, _part: crate::Part, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    /// Whether a change moves `metadata.generation`, of a kind that counts it; asked after `prepare_update`. Without a word
    /// from the kind, anything outside of metadata and status does.
    fn bumps_generation(&self, new: &Map, old: &Map) -> bool {
        differs_but_for(new, old, &["apiVersion", "kind", "metadata", "status"])
    }

    /// What stands against a new object, beside the declared constraints.
    fn validate_create(&self, _object: &Map) -> field::List {
        field::List::default()
    }

    /// What stands against a change, beside the declared constraints.
    fn validate_update(&self, _new: &Map, _old: &Map) -> field::List {
        field::List::default()
    }

    /// What stands against a changed status, beside the declared constraints.
    fn validate_status(&self, _new: &Map, _old: &Map) -> field::List {
        field::List::default()
    }

    /// What stands against a change through any other subresource, beside the declared constraints.
    fn validate_part(&self, _part: crate::Part, _new: &Map, _old: &Map) -> field::List {
        field::List::default()
    }

    /// Which form names of this kind have.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Whether a new object without a name gets a random one, a UUID, whatever it says of generating names.
    fn names_itself(&self) -> bool {
        false
    }

    /// Whether PUT may create.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether PUT may do without a resourceVersion.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// The seconds that an object gets before it goes, if its kind goes gracefully: asked with what the request says, if
    /// it says anything. `None` for kinds that go at once.
    fn grace(&self, _object: &Map, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Runs when an object is marked as being deleted and waits: here a kind may add finalizers to the metadata.
    fn prepare_deletion(&self, _object: &mut Map, _context: &Context<'_>) {}

    /// Whether the first delete of an object only marks it, without a grace period, whatever it has to wait for.
    fn deletes_in_two_phases(&self) -> bool {
        false
    }

    /// Whether an object that has no finalizers (left) in its metadata may go; asked with the mark of deletion when it has one.
    fn may_be_removed(&self, _object: &Map) -> bool {
        true
    }
}

/// The behaviour of a kind that has none of its own.
#[derive(Debug)]
pub struct WithoutStatus;

impl Strategy for WithoutStatus {
    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}
    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}
}

/// The behaviour of a kind whose only peculiarity is its status.
#[derive(Debug)]
pub struct WithStatus;

impl Strategy for WithStatus {}

/// The forms of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain (RFC 1123).
    Subdomain,
    /// A DNS label (RFC 1123).
    Label,
    /// A DNS label (RFC 1035).
    Label1035,
    /// Anything that can stand in a path.
    PathSegment,
    /// An IP address in its canonical form; the name that `generateName` makes is that text as it is.
    IpAddress,
    /// A group, which is a DNS subdomain (RFC 1123), a dot, and a resource, which is a DNS label (RFC 1035).
    GroupAndResource,
}

/// Makes the value at `key` of `new` that of `old`.
pub fn keep(new: &mut Map, old: &Map, key: &'static str) {
    match old.get(key) {
        Some(value) => drop(new.insert(key, value.clone())),
        None => drop(new.remove(key)),
    }
}

/// Makes everything in `new` what it is in `old`, except at `keys`.
pub fn keep_all_but(new: &mut Map, old: &Map, keys: &[&str]) {
    new.retain(|key, _| keys.contains(&key.as_str()));
    for (key, value) in old.iter().filter(|(key, _)| !keys.contains(&key.as_str())) {
        new.insert(key.clone(), value.clone());
    }
}

/// Makes the metadata of `new` that of `old`, as far as those who report on an object may not change it.
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

/// Whether anything in `new` is not what it is in `old`, except at `keys`.
pub fn differs_but_for(new: &Map, old: &Map, keys: &[&str]) -> bool {
    let rest = |map: &Map| map.keys().filter(|key| !keys.contains(&key.as_str())).count();
    rest(new) != rest(old)
        || new
            .iter()
            .filter(|(key, _)| !keys.contains(&key.as_str()))
            .any(|(key, value)| old.get(key) != Some(value))
}

/// The map at `key`, made if it is not there.
pub fn map_at<'a>(object: &'a mut Map, key: &'static str) -> Option<&'a mut Map> {
    object.get_or_insert_with(key, || Value::from(Map::new())).as_map_mut()
}
