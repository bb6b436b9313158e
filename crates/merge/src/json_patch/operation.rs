//! The operations of a JSON patch as the reference reads them: each an object of raw values, which are parsed
//! when the operation runs.

use crate::mutation;
use crate::node::{ANY, Node, ShapeRef};
use object::quote::quote;
use schema::json::{self, Entry};
use schema::{Error, Limits};

/// One operation. Of repeated fields the last counts.
#[derive(Default)]
pub(crate) struct Operation<'a> {
    op: Option<json::Node<'a>>,
    path: Option<json::Node<'a>>,
    from: Option<json::Node<'a>>,
    /// The value, which may be null; `None` if the operation has none.
    pub(crate) value: Option<Node<'a>>,
}

/// Reads a patch.
pub(crate) fn read<'a>(text: &'a str, limits: &Limits) -> Result<Vec<Operation<'a>>, String> {
    let operations = match json::Node::read(text, limits).map_err(|error: Error| error.to_string())? {
        json::Node::Null => return Ok(Vec::new()),
        json::Node::List(operations) => operations,
        other => {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type jsonpatch.Patch",
                other.kind()
            ));
        }
    };
    let mut wrong = None;
    let read = operations.into_iter().map(|node| match node {
        json::Node::Object(entries) => Operation::new(entries),
        json::Node::Null => Operation::default(),
        other => {
            wrong.get_or_insert_with(|| {
                format!("json: cannot unmarshal {} into Go value of type jsonpatch.Operation", other.kind())
            });
            Operation::default()
        }
    });
    let read = read.collect();
    wrong.map_or(Ok(read), Err)
}

impl<'a> Operation<'a> {
    /// The operation that an expression made. As in the reference, its texts are in the quotes of Go, which
    /// JSON does not read where characters cannot be printed, and a null is the text `null`.
    pub(crate) fn of(made: mutation::Operation) -> Self {
        let quoted = |text: &str| Some(json::Node::Scalar(quote(text).into()));
        Self {
            op: quoted(&made.op),
            path: quoted(&made.path),
            from: if made.from.is_empty() { None } else { quoted(&made.from) },
            value: made.value.map(|value| Node::Typed(ShapeRef(&ANY), value)),
        }
    }

    fn new(entries: Vec<Entry<'a>>) -> Self {
        let mut operation = Self::default();
        for Entry { key, value } in entries {
            match &*key {
                "op" => operation.op = Some(value),
                "path" => operation.path = Some(value),
                "from" => operation.from = Some(value),
                "value" => {
                    operation.value = Some(match value {
                        json::Node::Null => Node::Null,
                        value => Node::Text(value),
                    });
                }
                _ => {}
            }
        }
        operation
    }

    /// The field `op`.
    pub(crate) fn kind(&self) -> String {
        let text = self.op.as_ref().and_then(json::Node::text);
        text.map_or_else(|| "unknown".into(), |text| text.into_owned())
    }

    /// The field `path`.
    pub(crate) fn path(&self) -> Result<String, String> {
        read_text(self.path.as_ref(), "operation missing path field: missing value")
    }

    /// The field `from`.
    pub(crate) fn from(&self) -> Result<String, String> {
        read_text(self.from.as_ref(), "operation, missing from field: missing value")
    }
}

fn read_text(node: Option<&json::Node<'_>>, missing: &str) -> Result<String, String> {
    match node {
        None | Some(json::Node::Null) => Err(missing.into()),
        Some(node) => match node.text() {
            Some(text) => Ok(text.into_owned()),
            None if node.kind() == "string" => Err(unread(node)),
            None => Err(format!("json: cannot unmarshal {} into Go value of type string", node.kind())),
        },
    }
}

/// Why a text in the quotes of Go is no JSON: it has an escape that JSON does not know.
fn unread(node: &json::Node<'_>) -> String {
    let json::Node::Scalar(raw) = node else { return String::new() };
    let mut letters = raw.chars();
    let mut escapes = std::iter::from_fn(|| {
        letters.find(|letter| *letter == '\\')?;
        letters.next()
    });
    let unknown = escapes.find(|letter| matches!(letter, 'x' | 'a' | 'v' | 'U')).unwrap_or('x');
    format!("invalid character '{unknown}' in string escape code")
}
