//! What of a definition matters to names, conditions and serving, read from its stored bytes, and where
//! schemas are found.

use crate::conditions;
use cache::{Entry, Resource};
use kinds::{Approval, DefinedSchema, object_meta, x509};
use object::{Map, Text, Value};
use schema::stored::{self, decode_part};
use schema::view::{Items, View};
use schema::views::apiextensions::v1::{CustomResourceDefinition, CustomResourceDefinitionCondition};
use schema::{Builder, Part, Ref, Type};
use std::sync::{Arc, LazyLock};
use store::Revision;

/// The finalizer that is removed when all objects of the kind are gone.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The data that is kept in memory for each definition.
pub(crate) struct Definition {
    pub(crate) name: Text,
    pub(crate) uid: Text,
    /// `metadata.generation`, which grows with every change of the spec.
    pub(crate) generation: i64,
    pub(crate) revision: Revision,
    pub(crate) group: Text,
    /// The requested names: `spec.names`.
    pub(crate) names: Map,
    /// The status of the definition.
    pub(crate) status: Map,
    /// The value of the annotation that definitions of protected groups need.
    pub(crate) approval: Text,
    /// Whether the authority of its conversion webhook can be read.
    pub(crate) has_valid_authority: bool,
    /// Whether the definition is being deleted, and waits for the objects of its kind.
    pub(crate) is_to_be_cleaned_up: bool,
}

/// The fields that are read.
const PARTS: &[Part] = &[
    Part(
        "metadata",
        &[
            Part("uid", &[]),
            Part("generation", &[]),
            Part("deletionTimestamp", &[]),
            Part("finalizers", &[]),
            Part("annotations", &[]),
        ],
    ),
    Part(
        "spec",
        &[
            Part("group", &[]),
            Part("names", &[]),
            Part("conversion", &[Part("webhook", &[Part("clientConfig", &[Part("caBundle", &[])])])]),
        ],
    ),
    Part("status", &[]),
];

static PART: LazyLock<Ref<Type>> =
    LazyLock::new(|| Builder::part_of(CustomResourceDefinition::schema(), PARTS).build());

impl Definition {
    pub(crate) fn read(entry: &Entry) -> Result<Self, schema::Error> {
        let object = decode_part(&PART, entry.bytes())?;
        let definition = CustomResourceDefinition::of(&object);
        let spec = definition.spec();
        let webhook = spec.conversion().and_then(|conversion| conversion.webhook());
        let authority = webhook.and_then(|webhook| webhook.client_config()).map(|config| config.ca_bundle());
        let approval = kinds::metadata(&object).annotations().get(Approval::ANNOTATION).unwrap_or_default();
        let finalizers = object_meta::finalizers(&object);
        let map_at = |key: &str, within: Option<&Value>| {
            within.and_then(|within| within.get(key)).and_then(Value::as_map).cloned().unwrap_or_default()
        };
        Ok(Self {
            name: entry.name().into(),
            uid: entry.uid().into(),
            generation: object_meta::number(&object, "generation").unwrap_or_default(),
            revision: entry.mod_revision(),
            group: spec.group().into(),
            names: map_at("names", object.get("spec")),
            status: object.get("status").and_then(Value::as_map).cloned().unwrap_or_default(),
            approval: approval.into(),
            has_valid_authority: authority.is_none_or(|pem| x509::check_authorities(pem).is_ok()),
            is_to_be_cleaned_up: object_meta::is_deleting(&object) && finalizers.contains(&FINALIZER),
        })
    }

    /// The accepted names: `status.acceptedNames`.
    pub(crate) fn accepted(&self) -> &Map {
        static NONE: Map = Map::new();
        self.status.get("acceptedNames").and_then(Value::as_map).unwrap_or(&NONE)
    }

    /// Whether some requested names are not accepted.
    pub(crate) fn lacks_names(&self) -> bool {
        self.names != *self.accepted()
    }

    /// Whether a status says that the kind is to be served.
    pub(crate) fn is_served_by(status: &Map) -> bool {
        let conditions = conditions_of(status);
        conditions::is_true(conditions, "NamesAccepted") || conditions::is_true(conditions, "Established")
    }
}

/// The conditions of a status.
pub(crate) fn conditions_of(status: &Map) -> Items<'_, CustomResourceDefinitionCondition<'_>> {
    schema::views::apiextensions::v1::CustomResourceDefinitionStatus::of(status).conditions()
}

/// A definition as a whole.
pub(crate) fn decode(entry: &Entry) -> Result<Map, schema::Error> {
    stored::decode(CustomResourceDefinition::schema(), entry.bytes())
}

/// Reads the schema of a version while the spec of its definition is still the one of a generation.
pub(crate) fn read_schema(
    definitions: &Arc<Resource>,
    name: &str,
    uid: &str,
    generation: i64,
    version: &str,
) -> DefinedSchema {
    let definitions = definitions.clone();
    let [name, uid, version] = [name, uid, version].map(Text::from);
    Arc::new(move || {
        let entry = definitions.lookup("", &name).ok().flatten().filter(|entry| entry.uid() == uid)?;
        let definition = stored::logged(&entry, decode(&entry))?;
        if object_meta::number(&definition, "generation") != Some(generation) {
            return None;
        }
        let versions = definition.get("spec")?.get("versions")?.as_list()?;
        let is_it = |other: &&Value| other.get("name").and_then(Value::as_str) == Some(&*version);
        versions.iter().find(is_it)?.get("schema")?.get("openAPIV3Schema").cloned()
    })
}
