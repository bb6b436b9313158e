//! `secrets`.

use crate::defaults::fill_text;
use crate::{
    About, Cell, Column, Columns, Context, Kind, Refusal, Row, SelectableFields, SelectableRow, Strategy,
    map_at,
};
use object::{Map, Value};
use schema::view::View;
use schema::views::core::v1::Secret;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "secrets",
    singular: "secret",
    kind: "Secret",
    columns: Columns { list: COLUMNS, row },
    fields: SelectableFields { list: &[SelectableRow::at(&["type"])], refusal: Refusal::NotSupported },
    strategy: &SecretStrategy,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Type", About::Field("core.v1.Secret", "type")),
    Column::text("Data", About::Field("core.v1.Secret", "data")),
    Column::AGE,
];

fn row(object: &Map) -> Row {
    let secret = Secret::of(object);
    vec![Cell::name(object), Cell::text(secret.r#type()), Cell::count(secret.data().len()), Cell::age(object)]
        .into()
}

struct SecretStrategy;

impl Strategy for SecretStrategy {
    /// Also moves `stringData` to `data`.
    fn default(&self, secret: &mut Map) {
        fill_text(secret, "type", "Opaque");
        let Some(Value::Map(texts)) = secret.remove("stringData") else { return };
        let Some(data) = map_at(secret, "data") else { return };
        let written = texts.index();
        data.retain(|key, _| !written.contains_key(key.as_str()));
        for (key, text) in texts.iter() {
            let bytes = text.as_str().unwrap_or_default().as_bytes();
            data.insert_at(usize::MAX, key.clone(), Value::Bytes(bytes.into()));
        }
    }

    fn prepare_create(&self, _secret: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}
}
