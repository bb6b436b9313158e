//! Everything that can be wrong, one row for each: how bad it is, what it is called, and what can be done
//! about it.

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// The object cannot be served, or is wrong.
    Error,
    /// It works, and will trouble someone.
    Warning,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// What `--repair` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    /// Removes the entry. No key and no other version of the server reads it.
    Remove,
    /// Removes the entry, and only if it is named: there may be another way to read it.
    RemoveIfNamed,
    /// Adds the storage version to the stored versions of a definition.
    AddStorageVersion,
    /// Writes the same object again, encrypted as it would be today.
    WriteAgain,
}

impl Repair {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::RemoveIfNamed => "remove-if-named",
            Self::AddStorageVersion => "add-storage-version",
            Self::WriteAgain => "write-again",
        }
    }
}

/// One thing that can be wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Its name in JSON.
    pub(super) name: &'static str,
    pub(super) level: Level,
    /// The heading of its findings.
    pub(super) title: &'static str,
    /// What the repair does, or what to do where there is none.
    pub(super) remedy: &'static str,
    pub(super) repair: Option<Repair>,
}

/// A row per problem.
macro_rules! problems {
    ($($constant:ident = $name:literal, $level:ident, $title:literal, $repair:expr, $remedy:literal;)*) => {
        $(pub(super) const $constant: Problem = Problem {
            name: $name, level: Level::$level, title: $title, remedy: $remedy, repair: $repair,
        };)*
        /// All rows.
        #[cfg(test)]
        pub(super) const ALL: &[&Problem] = &[$(&$constant),*];
    };
}

problems! {
    STORE_UNUSABLE = "store-unusable", Error, "the store cannot be opened", None,
        "do what the message says; `keelson restore` makes a store from a backup";
    DAMAGED = "damaged", Error, "the stored bytes are damaged", Some(Repair::Remove),
        "a repair removes the entry, after its key and the cause are saved; a backup may have the object";
    UNDECRYPTABLE = "undecryptable", Error, "the value cannot be decrypted", Some(Repair::RemoveIfNamed),
        "give the provider and the key that it was written with in --encryption-provider-config; \
         if the key is lost, --repair KEY removes the entry, after what is stored is saved";
    UNDECODABLE = "undecodable", Error, "the value is no object of its type", Some(Repair::Remove),
        "a repair removes the entry, after what is stored is saved; a backup may have the object";
    WRONG_TYPE = "wrong-type", Error, "the object is of another type than its key says", Some(Repair::RemoveIfNamed),
        "another version of the server may read it; --repair KEY removes the entry, after what is stored is saved";
    MISNAMED = "misnamed", Error, "the names of the object are not those of its key", Some(Repair::RemoveIfNamed),
        "--repair KEY removes the entry, after what is stored is saved; create the object again from there if it is needed";
    UNKNOWN_TYPE = "unknown-type", Error, "the key is of no resource type", None,
        "create the definition of the type again, and delete the objects through the server if they are not needed";
    WITHOUT_UID = "without-uid", Error, "the object has no uid", None,
        "save the object, delete it, and create it again through the server";
    SHARED_UID = "shared-uid", Error, "several objects have the same uid", None,
        "delete all but one, and create them again through the server: an owner reference cannot tell them apart";
    WITHOUT_NAMESPACE = "without-namespace", Error, "the object is in a namespace that does not exist", None,
        "create the namespace; delete it again to have its objects removed";
    EVENT_WITHOUT_NAMESPACE = "event-without-namespace", Warning, "the event is in a namespace that does not exist", None,
        "nothing: it goes when its time is over";
    SHARED_ADDRESS = "shared-address", Error, "several services have the same cluster IP", None,
        "delete all but one of the services, and create them again through the server";
    SHARED_PORT = "shared-port", Error, "several services have the same node port", None,
        "change the node port of all but one of the services";
    STORAGE_VERSION_UNNOTED = "storage-version-unnoted", Error,
        "the stored versions of a definition lack its storage version", Some(Repair::AddStorageVersion),
        "a repair adds the storage version to status.storedVersions; so does the next change of the definition's spec";
    STORED_VERSION_UNKNOWN = "stored-version-unknown", Warning,
        "the stored versions of a definition name one that it does not have", None,
        "write all objects of the kind again, and take the version out of status.storedVersions after that";
    TOO_LARGE = "too-large", Warning, "the object is larger than what can be written", None,
        "make it smaller, or delete it: an update that leaves it as large is refused";
    STALE = "stale", Warning, "the value is not encrypted as it would be today", Some(Repair::WriteAgain),
        "a repair writes it again, and so does any update; keep the old key until all values are written again";
    STUCK = "stuck", Warning, "the deletion of the object is overdue", None,
        "any update removes it; for a pod whose node is gone: kubectl delete --force";
    BAD_OWNER = "bad-owner", Warning, "an owner reference of the object cannot be right", None,
        "correct metadata.ownerReferences through the server";
    ADDRESS_WITHOUT_SERVICE = "address-without-service", Warning, "an IPAddress belongs to no service", None,
        "nothing: a server removes it by itself";
    SERVICE_WITHOUT_ADDRESS = "service-without-address", Warning, "a cluster IP has no IPAddress", None,
        "nothing: a server makes it by itself, if the address is in its range";
    INVALID = "invalid", Warning, "the object is not valid by the rules of today", None,
        "correct the field through the server: updates that leave it as it is are refused";
    FILE_MISSING = "file-missing", Warning, "a file of the data directory is missing", None,
        "put it back from a copy if there is one; otherwise a server makes another when it starts";
    KEY_MISSING = "key-missing", Error, "a key of the data directory is missing", None,
        "put it back from a copy; or run keelson renew-authority --new-key or keelson renew-service-account-key: the help of each says what is \
         void afterwards. No server starts on the directory until then";
    AUTHORITY_INCOMPLETE = "authority-incomplete", Error, "the authority is incomplete", None,
        "put the file back, or run keelson renew-authority --new-key; no server starts on the directory until then";
    FILE_OPEN = "file-open", Error, "a file of the data directory is open to others", None,
        "chmod go= FILE; a server does that when it starts. If others may have read it, replace what it holds";
    CERTIFICATE_EXPIRED = "certificate-expired", Error, "a certificate has run out, or cannot be read", None,
        "start the server: it makes another one";
    AUTHORITY_NOT_VALID = "authority-not-valid", Error, "the authority is not valid now, or cannot be read", None,
        "set the clock right if it is wrong; otherwise run keelson renew-authority. No server starts on the directory until then";
    AUTHORITY_ENDS = "authority-ends", Warning, "the authority runs out within 90 days", None,
        "run keelson renew-authority, with the server stopped";
    CERTIFICATE_ENDS = "certificate-ends", Warning, "a certificate runs out within 30 days", None,
        "start the server: it makes another one";
}
