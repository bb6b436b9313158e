//! The rules of a schema, in the words of the reference.
//!
//! One walk over the object does all of it. Every keyword is checked, also after another one failed; only the
//! length and the pattern of a text stop at the first fault. Of the schemas below `anyOf` and `oneOf` that
//! all failed, the faults of the one that matched most are named, so the walk counts what matched as the
//! reference does. A fault that reads like one before it is left out.
//!
//! Of a change, faults of unchanged parts are left out: the walk runs again with the old object beside the
//! new one, from place to place as the schema says (the items of a list map by their keys, those of other
//! lists not at all), and drops the faults of every place whose old value is the same. Schemas below `allOf`,
//! `anyOf`, `oneOf` and `not` do not look at the old object.
//!
//! The time is linear in the object for a given schema, and recursion is as deep as the schema. Both together
//! are bounded: the walk counts its steps (`work`), and refuses an object whose check would take seconds.

mod fault;
mod same;
mod scalar;
mod work;

pub use same::{Keyed, go_text};

use super::{Interned, ListType, Nested, Node, NodeType, Rules, Structural};
use fault::{Fault, Faults, Place};
use object::field::{self, BadValue, Path};
use object::{Map, Value};
use work::Work;

impl Structural {
    /// The errors of an object, with the messages and in the order of the reference. For an update, errors of
    /// unchanged values are left out.
    pub fn validate(&self, new: &Map, old: Option<&Map>) -> field::List {
        let new = Value::from(new.clone());
        let old = old.map(|old| Value::from(old.clone()));
        validate(&self.root, &new, old.as_ref(), None)
    }

    /// The errors of the status of an object, if it has one: paths begin with `status`.
    pub fn validate_status(&self, new: &Map, old: &Map) -> field::List {
        let (Some(node), Some(new)) = (self.root.property("status"), new.get("status")) else {
            return field::List::new();
        };
        validate(node, new, Some(old.get("status").unwrap_or(&Value::Null)), Some("status"))
    }
}

impl Node {
    /// The errors of a value at `path`.
    pub fn validate(&self, value: &Value, path: Option<&str>) -> field::List {
        validate(self, value, None, path)
    }

    /// Whether this node or a nested one has expressions: `x-kubernetes-validations`.
    pub fn has_expressions(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| !rules.expressions.is_empty())
            || self.properties.iter().any(|(_, node)| node.has_expressions())
            || self.items.as_ref().is_some_and(|node| node.has_expressions())
            || self.additional.node().is_some_and(|node| node.has_expressions())
    }
}

fn validate(node: &Node, new: &Value, old: Option<&Value>, prefix: Option<&str>) -> field::List {
    let prefix = prefix.map_or(Path::UNSET, Path::new);
    let mut walk = Walk::default();
    walk.visit(Schema::Node(node), new, None, &Place::Root);
    if walk.faults.is_empty() && !walk.work.is_exceeded() {
        return field::List::new();
    }
    if let Some(value) = old.filter(|_| !walk.work.is_exceeded()) {
        walk = Walk::default();
        walk.visit(Schema::Node(node), new, Some(Old { value, ratchets: true }), &Place::Root);
    }
    if walk.work.is_exceeded() {
        return field::Error::forbidden(&prefix, "the object and its schema are too large to be checked")
            .into();
    }
    walk.faults.into_list(&prefix)
}

/// The value that was at a place before.
#[derive(Clone, Copy)]
struct Old<'o> {
    value: &'o Value,
    /// Whether faults of the place are left out if it is the same now.
    ratchets: bool,
}

/// What a visit of a place found, beside faults.
#[derive(Clone, Copy, Default)]
struct Found {
    /// How much matched, counted as the reference does.
    matches: u64,
    /// Whether the old value is known and the same.
    same: bool,
}

/// A part of a schema, with or without structure.
#[derive(Clone, Copy)]
enum Schema<'s> {
    Node(&'s Node),
    Nested(&'s Nested),
}

impl<'s> Schema<'s> {
    fn types(self) -> Types {
        match self {
            Self::Node(Node { int_or_string: true, .. }) => Types::IntegerOrString,
            Self::Node(Node { ty, .. }) | Self::Nested(Nested { ty, .. }) => {
                ty.map_or(Types::Any, Types::One)
            }
        }
    }

    fn nullable(self) -> bool {
        matches!(self, Self::Node(Node { nullable: true, .. }))
    }

    fn rules(self) -> Option<&'s Rules> {
        match self {
            Self::Node(node) => node.rules.as_deref(),
            Self::Nested(nested) => Some(&nested.rules),
        }
    }

    fn property(self, name: &str) -> Option<Self> {
        match self {
            Self::Node(node) => node.property(name).map(|node| Self::Node(node)),
            Self::Nested(nested) => {
                let at = nested.properties.binary_search_by(|(key, _)| key.as_str().cmp(name)).ok()?;
                nested.properties.get(at).map(|(_, nested)| Self::Nested(nested))
            }
        }
    }

    fn additional(self) -> Option<Self> {
        match self {
            Self::Node(node) => node.additional.node().map(|node| Self::Node(node)),
            Self::Nested(nested) => nested.additional.as_deref().map(Self::Nested),
        }
    }

    fn items(self) -> Option<Self> {
        match self {
            Self::Node(node) => node.items.as_deref().map(Self::Node),
            Self::Nested(nested) => nested.items.as_deref().map(Self::Nested),
        }
    }

    /// The keys by which old and new items of a list belong together.
    fn list_keys(self) -> Option<&'s [object::Text]> {
        match self {
            Self::Node(Node { list_type: ListType::Map(keys), .. }) => Some(keys),
            _ => None,
        }
    }
}

/// The types that a schema allows.
#[derive(Clone, Copy)]
enum Types {
    Any,
    One(NodeType),
    IntegerOrString,
}

impl Types {
    fn contain(self, ty: NodeType) -> bool {
        match self {
            Self::Any => false,
            Self::One(one) => one == ty,
            Self::IntegerOrString => matches!(ty, NodeType::Integer | NodeType::String),
        }
    }

    fn names(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::One(one) => one.name(),
            Self::IntegerOrString => "integer,string",
        }
    }
}

impl NodeType {
    /// Its name in schemas.
    pub fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }

    fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(_) => Self::Boolean,
            Value::Int(_) => Self::Integer,
            Value::Float(_) => Self::Number,
            Value::String(_) | Value::Bytes(_) => Self::String,
            Value::List(_) => Self::Array,
            Value::Map(_) | Value::Raw(_) => Self::Object,
        })
    }
}

#[derive(Default)]
struct Walk {
    faults: Faults,
    work: Work,
}

impl Walk {
    /// Checks a value and everything in it.
    fn visit(&mut self, schema: Schema<'_>, value: &Value, old: Option<Old<'_>>, at: &Place<'_>) -> Found {
        if !self.work.spend(1) {
            return Found::default();
        }
        let mark = self.faults.mark();
        let found = match NodeType::of(value) {
            None => self.null(schema, old, at),
            Some(ty) => self.present(schema, ty, value, old, at),
        };
        if found.same && old.is_some_and(|old| old.ratchets) {
            self.faults.truncate(mark);
        }
        found
    }

    fn null(&mut self, schema: Schema<'_>, old: Option<Old<'_>>, at: &Place<'_>) -> Found {
        let types = schema.types();
        let mut matches = 1;
        if !matches!(types, Types::Any) && !schema.nullable() {
            matches = 0;
            self.faults.push(|| Fault::wrong_type(at, types.names(), "null"));
        }
        if let Some(rules) = schema.rules() {
            self.listed(rules, &Value::Null, at);
        }
        Found { matches, same: old.is_some_and(|old| old.value.is_null()) }
    }

    fn present(
        &mut self,
        schema: Schema<'_>,
        ty: NodeType,
        value: &Value,
        old: Option<Old<'_>>,
        at: &Place<'_>,
    ) -> Found {
        let rules = schema.rules();
        // The checks of combinations and of enumerations are always counted, and so is the value itself.
        let mut found = Found { matches: 4, same: false };
        found.matches += self.check_type(schema, ty, value, at);
        if let Some(rules) = rules {
            found.matches += self.combinations(rules, value, at);
        }
        match value {
            Value::List(list) => {
                let items = self.items(schema, list, old, at);
                found = Found { matches: found.matches + 2 + items.matches, same: items.same };
            }
            Value::Map(_) => {}
            scalar => {
                found.same = old.is_some_and(|old| old.value == scalar);
                found.matches += match scalar {
                    Value::Int(_) | Value::Float(_) => 2,
                    Value::String(_) => {
                        1 + u64::from(rules.is_some_and(|rules| super::format::of(&rules.format).is_some()))
                    }
                    _ => 0,
                };
                if let Some(rules) = rules {
                    self.scalar(rules, scalar, at);
                }
            }
        }
        if let Some(rules) = rules {
            self.listed(rules, value, at);
        }
        if let Value::Map(map) = value {
            let fields = self.fields(schema, map, old, at);
            found = Found { matches: found.matches + 1 + fields.matches, same: fields.same };
        }
        found
    }

    /// Checks the type; the count is what the reference counts for the check.
    fn check_type(&mut self, schema: Schema<'_>, ty: NodeType, value: &Value, at: &Place<'_>) -> u64 {
        let types = schema.types();
        let format =
            schema.rules().and_then(|rules| super::format::of(&rules.format).map(|_| rules.format.as_str()));
        if matches!(types, Types::Any) && format.is_none() {
            return 0;
        }
        let fits = types.contain(ty)
            || match (ty, value) {
                (NodeType::Number, Value::Float(number)) => {
                    types.contain(NodeType::Integer) && scalar::is_whole(*number)
                }
                (NodeType::Integer, _) => types.contain(NodeType::Number),
                _ => false,
            };
        let of_text = matches!(ty, NodeType::String | NodeType::Array);
        let numeric = types.contain(NodeType::Number) || types.contain(NodeType::Integer);
        match format {
            Some(format) if !of_text && !fits => {
                let found = match ty {
                    NodeType::Integer => "int64",
                    NodeType::Number => "float64",
                    _ => "",
                };
                self.faults.push(|| Fault::wrong_type(at, format, found));
                1
            }
            Some(_) if of_text && !numeric => 2,
            _ if !fits => {
                self.faults.push(|| Fault::wrong_type(at, types.names(), ty.name()));
                1
            }
            _ => 2,
        }
    }

    /// Checks `anyOf`, `oneOf`, `allOf` and `not`; the count is that of the schemas whose result counts.
    fn combinations(&mut self, rules: &Rules, value: &Value, at: &Place<'_>) -> u64 {
        let mut matches = 0;
        if !rules.any_of.is_empty() {
            matches += self.any_of(&rules.any_of, value, at);
        }
        if !rules.one_of.is_empty() {
            matches += self.one_of(&rules.one_of, value, at);
        }
        if !rules.all_of.is_empty() {
            matches += self.all_of(&rules.all_of, value, at);
        }
        if let Some(not) = &rules.not
            && self.alone(not, value, at).1.is_empty()
        {
            self.faults.push(|| Fault::combination(at, "must not validate the schema (not)"));
        }
        matches
    }

    /// The count and the faults of a schema by itself.
    fn alone(&mut self, schema: &Nested, value: &Value, at: &Place<'_>) -> (u64, Faults) {
        let before = std::mem::take(&mut self.faults);
        self.work.spend(work::OF_ALTERNATIVE);
        let found = self.visit(Schema::Nested(schema), value, None, at);
        let faults = std::mem::replace(&mut self.faults, before);
        self.work.spend(faults.size() / work::BYTES_OF_FAULTS);
        (found.matches, faults)
    }

    fn any_of(&mut self, schemas: &[Interned<Nested>], value: &Value, at: &Place<'_>) -> u64 {
        let mut best: Option<(u64, Faults)> = None;
        for schema in schemas {
            let (matches, faults) = self.alone(schema, value, at);
            if faults.is_empty() {
                return matches;
            }
            if best.as_ref().is_none_or(|(most, _)| matches > *most) {
                best = Some((matches, faults));
            }
        }
        self.faults.push(|| Fault::combination(at, "must validate at least one schema (anyOf)"));
        self.failed(best)
    }

    fn one_of(&mut self, schemas: &[Interned<Nested>], value: &Value, at: &Place<'_>) -> u64 {
        let mut best: Option<(u64, Faults)> = None;
        let mut valid = 0_usize;
        let mut first = 0;
        for schema in schemas {
            let (matches, faults) = self.alone(schema, value, at);
            if faults.is_empty() {
                if valid == 0 {
                    first = matches;
                }
                valid += 1;
            } else if valid == 0 && best.as_ref().is_none_or(|(most, _)| matches > *most) {
                best = Some((matches, faults));
            }
        }
        match valid {
            1 => first,
            0 => {
                let why = "must validate one and only one schema (oneOf). Found none valid";
                self.faults.push(|| Fault::combination(at, why));
                self.failed(best)
            }
            several => {
                let why = format!(
                    "must validate one and only one schema (oneOf). Found {several} valid alternatives"
                );
                self.faults.push(|| Fault::combination(at, &why));
                0
            }
        }
    }

    fn all_of(&mut self, schemas: &[Interned<Nested>], value: &Value, at: &Place<'_>) -> u64 {
        let mut matches = 0;
        let mut valid = 0;
        for schema in schemas {
            let mark = self.faults.mark();
            matches += self.visit(Schema::Nested(schema), value, None, at).matches;
            valid += usize::from(self.faults.mark() == mark);
        }
        if valid < schemas.len() {
            let why = match valid {
                0 => "must validate all the schemas (allOf). None validated",
                _ => "must validate all the schemas (allOf)",
            };
            self.faults.push(|| Fault::combination(at, why));
        }
        matches
    }

    /// Takes the faults of the schema that matched most.
    fn failed(&mut self, best: Option<(u64, Faults)>) -> u64 {
        best.map_or(0, |(matches, faults)| {
            self.faults.append(faults);
            matches
        })
    }

    fn items(&mut self, schema: Schema<'_>, list: &[Value], old: Option<Old<'_>>, at: &Place<'_>) -> Found {
        let mut found = Found::default();
        let before = old.and_then(|old| Some((old, old.value.as_list()?)));
        let mut keyed = before.and_then(|(_, before)| Some(Keyed::new(schema.list_keys()?, before)));
        if let Some((_, before)) = before {
            found.same = list.len() == before.len() && (keyed.is_some() || list == before);
        }
        if let Some(items) = schema.items() {
            for (index, item) in list.iter().enumerate() {
                let old = keyed.as_mut().and_then(|keyed| keyed.get(item)).zip(before);
                let old = old.map(|(value, (old, _))| Old { value, ..old });
                let of_item = self.visit(items, item, old, &Place::Index(at, index));
                found.matches += of_item.matches;
                found.same &= keyed.is_none() || of_item.same;
            }
        }
        if let Some(rules) = schema.rules() {
            self.number_of_items(rules, list, at);
        }
        found
    }

    fn number_of_items(&mut self, rules: &Rules, list: &[Value], at: &Place<'_>) {
        let size = i64::try_from(list.len()).unwrap_or(i64::MAX);
        if let Some(least) = rules.min_items.filter(|least| size < *least) {
            self.faults.push(|| {
                Fault::invalid(at, BadValue::Int(size), |name| {
                    format!("{name} in body should have at least {least} items")
                })
            });
        }
        if let Some(most) = rules.max_items.filter(|most| size > *most) {
            self.faults.push(|| Fault::too_many(at, size, most, "items"));
        }
        if rules.unique_items && same::has_repeats(list) {
            self.faults.push(|| {
                Fault::invalid(at, BadValue::from(""), |name| {
                    format!("{name} in body shouldn't contain duplicates")
                })
            });
        }
    }

    fn fields(&mut self, schema: Schema<'_>, map: &Map, old: Option<Old<'_>>, at: &Place<'_>) -> Found {
        if let Some(rules) = schema.rules() {
            self.number_of_fields(rules, map, at);
        }
        let mut found = Found::default();
        let old_map = old.and_then(|old| Some((old, old.value.as_map()?)));
        found.same = old_map.is_some_and(|(_, before)| before.len() == map.len());
        let before = old_map.map(|(old, before)| (old, before.lookup(map.len())));
        let mut visit = |walk: &mut Self, part: Schema<'_>, key: &str, value: &Value, place: &Place<'_>| {
            let old = before.as_ref().and_then(|(old, before)| Some(Old { value: before.get(key)?, ..*old }));
            // Whether the kind or the version changed cannot be seen: both objects are in the same version.
            let hidden = at.is_root() && matches!(key, "kind" | "apiVersion");
            let old = old.map(|old| Old { ratchets: old.ratchets && !hidden, ..old });
            let of_field = walk.visit(part, value, old, place);
            found.matches += of_field.matches;
            found.same &= of_field.same;
        };
        let mut unnamed = false;
        for (key, value) in map.iter().filter(|(key, _)| schema.property(key.as_str()).is_none()) {
            match schema.additional() {
                Some(part) => visit(self, part, key.as_str(), value, &Place::Key(at, key.as_str())),
                None => unnamed = true,
            }
        }
        for (key, value) in map.iter() {
            if let Some(part) = schema.property(key.as_str()) {
                visit(self, part, key.as_str(), value, &Place::Property(at, key.as_str()));
            }
        }
        found.same &= !unnamed;
        let required = schema.rules().map_or(&[][..], |rules| &rules.required);
        if !required.is_empty() && self.work.spend(required.len() / work::REQUIRED_FIELDS) {
            let fields = map.lookup(required.len());
            for name in required.iter().filter(|name| fields.get(name.as_str()).is_none()) {
                self.faults.push(|| Fault::required(&Place::Key(at, name.as_str())));
            }
        }
        found
    }

    fn number_of_fields(&mut self, rules: &Rules, map: &Map, at: &Place<'_>) {
        let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(least) = rules.min_properties.filter(|least| size < *least) {
            self.faults.push(|| {
                Fault::invalid(at, BadValue::Int(size), |name| {
                    format!("{name} in body should have at least {least} properties")
                })
            });
        }
        if let Some(most) = rules.max_properties.filter(|most| size > *most) {
            self.faults.push(|| Fault::too_many(at, size, most, "properties"));
        }
    }

    /// Checks that a value is one of the listed ones.
    fn listed(&mut self, rules: &Rules, value: &Value, at: &Place<'_>) {
        let listed_in_step = match value {
            Value::List(_) | Value::Map(_) => 1,
            _ => work::LISTED_VALUES,
        };
        if !rules.values.is_empty()
            && self.work.spend(rules.values.len() / listed_in_step)
            && !rules.values.iter().any(|listed| same::converts(value, listed.value()))
        {
            self.faults.push(|| Fault::not_listed(at, value, &rules.values));
        }
    }
}
