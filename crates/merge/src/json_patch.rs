//! JSON patch (RFC 6902): operations in order, all or none.
//!
//! As in the reference, which is laxer than the standard in places: `replace` of an absent key adds it,
//! negative indexes count from the end, a path may lack its first slash, an operation without a value puts
//! null, and `replace` of the whole document by a scalar does nothing. `test` compares the text of scalars:
//! `1.0` is not `1`.

mod operation;

use crate::node::{Node, Opened};
use crate::result::finish;
use crate::{Error, FieldValidation, Patched};
use object::Value;
use object::json_pointer::{Pointer, insertion_index, item_index};
pub(crate) use operation::Operation;
use schema::{Builder, FieldBuilder, Limits, Ref, Shape, Type, json};
use std::sync::LazyLock;

/// The most operations of a patch.
pub const MOST_OPERATIONS: usize = 10_000;

/// The most bytes that all `copy` operations of a patch may add together.
pub const MOST_COPIED: usize = 3 * 1024 * 1024;

/// The most list items and nodes that operations may move or look at beyond those they name: a patch that
/// shifts a long list thousands of times is refused. The reference has no such bound.
const MOST_MOVED: usize = 1 << 23;

/// A patch as the reference reads it in order to find unknown and repeated fields.
static OPERATIONS: LazyLock<Shape> = LazyLock::new(|| {
    let text = || FieldBuilder::new(Shape::String);
    let operation = Builder::new("handlers.jsonPatchOp").field("op", text()).field("path", text());
    let operation = operation.field("from", text()).field("value", FieldBuilder::new(Shape::Any)).build();
    Shape::List(Ref::Shared(Shape::Struct(operation).into()))
});

/// Applies a JSON patch.
pub fn apply(
    ty: &Ref<Type>,
    current: &Value,
    patch: &[u8],
    validation: FieldValidation,
    limits: &Limits,
) -> Result<Patched, Error> {
    let mut strict = Vec::new();
    if validation != FieldValidation::Ignore {
        let decoded = json::decode_shape(&OPERATIONS, patch, limits)
            .map_err(|error| Error::BadRequest(format!("error decoding patch: {error}")))?;
        strict.extend(decoded.strict.iter().map(|field| format!("json patch {field}")));
    }
    let text = json::text(patch);
    let operations = operation::read(&text, limits).map_err(Error::BadRequest)?;
    if operations.len() > MOST_OPERATIONS {
        return Err(Error::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    match run(ty, current, operations, limits) {
        Outcome::Patched(root) => finish(ty, &root, strict, validation, limits),
        Outcome::FailedTest(why) | Outcome::Failed(why) => Err(Error::Unprocessable(why)),
    }
}

/// What came of the operations of a patch.
pub(crate) enum Outcome<'a> {
    /// The document after all operations.
    Patched(Node<'a>),
    /// A test failed.
    FailedTest(String),
    /// An operation does not apply.
    Failed(String),
}

/// Carries out the operations of a patch.
pub(crate) fn run<'a>(
    ty: &'a Type,
    current: &Value,
    operations: Vec<Operation<'a>>,
    limits: &Limits,
) -> Outcome<'a> {
    let mut document = Document { root: Node::root(ty, current), limits, copied: 0, movable: MOST_MOVED };
    for operation in operations {
        match document.run(operation) {
            Ok(()) => {}
            Err(Fault::FailedTest(why)) => return Outcome::FailedTest(why),
            Err(Fault::Other(why)) => return Outcome::Failed(why),
        }
    }
    Outcome::Patched(document.root)
}

/// A document that is being patched.
struct Document<'a, 'l> {
    root: Node<'a>,
    limits: &'l Limits,
    copied: usize,
    movable: usize,
}

/// Why an operation does not apply, in the words of the reference.
enum Fault {
    /// The values of a test are not the same.
    FailedTest(String),
    Other(String),
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl From<&str> for Fault {
    fn from(why: &str) -> Self {
        Self::Other(why.to_owned())
    }
}

/// A map or list, and the key or index in it.
struct Slotted<'n, 'a> {
    container: Opened<'n, 'a>,
    token: String,
}

impl<'a> Document<'a, '_> {
    fn run(&mut self, operation: Operation<'a>) -> Result<(), Fault> {
        match operation.kind().as_str() {
            "add" => self.add(operation),
            "remove" => self.remove(&operation),
            "replace" => self.replace(operation),
            "move" => self.relocate(&operation),
            "test" => self.test(operation),
            "copy" => self.copy(&operation),
            kind => Err(format!("Unexpected kind: {kind}").into()),
        }
    }

    fn add(&mut self, operation: Operation<'a>) -> Result<(), Fault> {
        let path = operation.path().map_err(|_| "add operation failed to decode path: missing value")?;
        let value = operation.value.unwrap_or(Node::Nil);
        let slot = self.find(&path).ok_or_else(|| {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        })?;
        let put = slot.put(value);
        self.moved(put.map_err(|error| format!("error in add for path: '{path}': {error}"))?)
    }

    fn remove(&mut self, operation: &Operation<'a>) -> Result<(), Fault> {
        let path = operation.path().map_err(|_| "remove operation failed to decode path: missing value")?;
        let slot = self.find(&path).ok_or_else(|| {
            format!("remove operation does not apply: doc is missing path: \"{path}\": missing value")
        })?;
        let taken = slot.take().map_err(|error| format!("error in remove for path: '{path}': {error}"))?;
        self.moved(taken.moved)
    }

    fn replace(&mut self, operation: Operation<'a>) -> Result<(), Fault> {
        let path =
            operation.path().map_err(|error| format!("replace operation failed to decode path: {error}"))?;
        if path.is_empty() {
            let mut value = operation.value.ok_or("replace operation of the whole document has no value")?;
            if !matches!(value.open(), Opened::Scalar) {
                self.root = value;
            }
            return Ok(());
        }
        let value = operation.value.unwrap_or(Node::Nil);
        let slot = self.find(&path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        })?;
        slot.set(value).map_err(|_| {
            format!("replace operation does not apply: doc is missing key: {path}: missing value").into()
        })
    }

    fn relocate(&mut self, operation: &Operation<'a>) -> Result<(), Fault> {
        let from =
            operation.from().map_err(|error| format!("move operation failed to decode from: {error}"))?;
        let slot = self.find(&from).ok_or_else(|| {
            format!("move operation does not apply: doc is missing from path: {from}: missing value")
        })?;
        let token = slot.token.clone();
        let taken = slot.take().map_err(|error| format!("error in move for path: '{token}': {error}"))?;
        self.moved(taken.moved)?;
        let path =
            operation.path().map_err(|error| format!("move operation failed to decode path: {error}"))?;
        let depth = self.limits.depth.saturating_sub(path.matches('/').count());
        if taken.node.height(depth, &mut self.movable).is_none() {
            return Err("exceeded max depth".into());
        }
        let slot = self.find(&path).ok_or_else(|| {
            format!("move operation does not apply: doc is missing destination path: {path}: missing value")
        })?;
        let put = slot.put(taken.node);
        self.moved(put.map_err(|error| format!("error in move for path: '{path}': {error}"))?)
    }

    fn test(&mut self, operation: Operation<'a>) -> Result<(), Fault> {
        let path =
            operation.path().map_err(|error| format!("test operation failed to decode path: {error}"))?;
        let failed = || Fault::FailedTest(format!("testing value {path} failed: test failed"));
        if path.is_empty() {
            let mut value = operation.value.ok_or_else(no_value)?;
            return if equal(&mut self.root, &mut value)? { Ok(()) } else { Err(failed()) };
        }
        let slot = self.find(&path).ok_or_else(|| {
            format!("test operation does not apply: is missing path: {path}: missing value")
        })?;
        let found = slot.get().map_err(|error| format!("error in test for path: '{path}': {error}"))?;
        match (found, operation.value) {
            (None | Some(Node::Nil), None) => Err(no_value().into()),
            (None | Some(Node::Nil), Some(Node::Null)) => Ok(()),
            (None | Some(Node::Nil), Some(_)) | (Some(_), None) => Err(failed()),
            (Some(found), Some(mut value)) => {
                if equal(found, &mut value)? {
                    Ok(())
                } else {
                    Err(failed())
                }
            }
        }
    }

    fn copy(&mut self, operation: &Operation<'a>) -> Result<(), Fault> {
        let from =
            operation.from().map_err(|error| format!("copy operation failed to decode from: {error}"))?;
        let slot = self.find(&from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: missing value")
        })?;
        let found = slot.get().map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
        let is_nil = matches!(found, None | Some(Node::Nil));
        let path = operation.path().map_err(|_| "copy operation failed to decode path: missing value")?;
        if self.find(&path).is_none() {
            return Err(format!(
                "copy operation does not apply: doc is missing destination path: {path}: missing value"
            )
            .into());
        }
        let node = if is_nil { Node::Nil } else { self.copy_of(&from)? };
        let Some(slot) = self.find(&path) else { return Ok(()) };
        let put = slot.put(node);
        self.moved(put.map_err(|error| format!("error while adding value during copy: {error}"))?)
    }

    /// A copy of the value at a path, as text in its current state.
    fn copy_of(&mut self, path: &str) -> Result<Node<'a>, Fault> {
        let found = self.find(path).and_then(|slot| slot.get().ok().flatten());
        let text = found.map(|node| node.to_text()).unwrap_or_default();
        self.copied += text.len();
        if self.copied > MOST_COPIED {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {MOST_COPIED}",
                self.copied
            )
            .into());
        }
        let node = json::Node::read(&text, self.limits).map_err(|error| error.to_string())?;
        Ok(Node::Text(node.into_owned()))
    }

    /// The container that holds, or would hold, the value at a path. Opens all containers on the way.
    fn find(&mut self, path: &str) -> Option<Slotted<'_, 'a>> {
        let pointer = Pointer::from_patch(path)?;
        let (token, parents) = pointer.tokens().split_last()?;
        if parents.len() > self.limits.depth {
            return None;
        }
        let mut node = &mut self.root;
        for parent in parents {
            node = match node.open() {
                Opened::Doc(doc) => doc.get_mut(parent.as_str())?,
                Opened::List(items) => {
                    let at = item_index(parent, items.len()).ok()?;
                    items.get_mut(at)?
                }
                Opened::Scalar => return None,
            };
        }
        match node.open() {
            Opened::Scalar => None,
            container => Some(Slotted { container, token: token.to_string() }),
        }
    }

    fn moved(&mut self, items: usize) -> Result<(), Fault> {
        self.movable = self.movable.checked_sub(items).ok_or("the patch moves too many list items")?;
        Ok(())
    }
}

/// Where the reference follows a null pointer: see `docs/differences.md`.
fn no_value() -> String {
    "test operation has no value".into()
}

/// A node that was removed, and how many items had to move for it.
struct Taken<'a> {
    node: Node<'a>,
    moved: usize,
}

impl<'n, 'a> Slotted<'n, 'a> {
    fn get(self) -> Result<Option<&'n mut Node<'a>>, String> {
        Ok(match self.container {
            Opened::Doc(doc) => doc.get_mut(self.token.as_str()),
            Opened::List(items) => {
                let at = item_index(&self.token, items.len()).map_err(|error| error.to_string())?;
                items.get_mut(at)
            }
            Opened::Scalar => None,
        })
    }

    fn set(self, value: Node<'a>) -> Result<(), String> {
        match self.container {
            Opened::Doc(doc) => {
                doc.insert(self.token.into(), value);
            }
            Opened::List(items) => {
                let at = item_index(&self.token, items.len()).map_err(|error| error.to_string())?;
                if let Some(place) = items.get_mut(at) {
                    *place = value;
                }
            }
            Opened::Scalar => {}
        }
        Ok(())
    }

    /// Adds a value; returns how many items had to move.
    fn put(self, value: Node<'a>) -> Result<usize, String> {
        match self.container {
            Opened::List(items) => {
                let length = items.len();
                let at = insertion_index(&self.token, length).map_err(|error| error.to_string())?;
                items.insert(at.min(length), value);
                Ok(length - at.min(length))
            }
            _ => self.set(value).map(|()| 0),
        }
    }

    fn take(self) -> Result<Taken<'a>, String> {
        match self.container {
            Opened::List(items) => {
                let at = item_index(&self.token, items.len()).map_err(|error| error.to_string())?;
                let node = if at < items.len() { items.remove(at) } else { Node::Nil };
                Ok(Taken { node, moved: items.len().saturating_sub(at) })
            }
            Opened::Doc(doc) => match doc.remove(self.token.as_str()) {
                Some(node) => Ok(Taken { node, moved: 0 }),
                None => Err(format!("Unable to remove nonexistent key: {}: missing value", self.token)),
            },
            Opened::Scalar => Ok(Taken { node: Node::Nil, moved: 0 }),
        }
    }
}

/// Whether two values are the same: objects and lists by their parts, scalars by their text.
fn equal(found: &mut Node<'_>, wanted: &mut Node<'_>) -> Result<bool, String> {
    if let (Node::Nil, _) | (_, Node::Nil) = (&*found, &*wanted) {
        // Within lists, the reference follows a null pointer here.
        return Err("test operation compares null within a list".into());
    }
    Ok(match found.open() {
        Opened::Doc(found) => {
            let Opened::Doc(wanted) = wanted.open() else { return Ok(false) };
            if found.len() != wanted.len() {
                return Ok(false);
            }
            for (key, value) in found {
                let same = match (value, wanted.get_mut(key.as_str())) {
                    (Node::Nil, Some(Node::Nil)) => true,
                    (Node::Nil, _) | (_, None | Some(Node::Nil)) => false,
                    (value, Some(other)) => equal(value, other)?,
                };
                if !same {
                    return Ok(false);
                }
            }
            true
        }
        Opened::List(found) => {
            let Opened::List(wanted) = wanted.open() else { return Ok(false) };
            if found.len() != wanted.len() {
                return Ok(false);
            }
            for (value, other) in found.iter_mut().zip(wanted) {
                if !equal(value, other)? {
                    return Ok(false);
                }
            }
            true
        }
        Opened::Scalar => scalar_text(found) == scalar_text(wanted),
    })
}

/// The source text of a scalar; `None` for null, lists and objects.
fn scalar_text(node: &Node<'_>) -> Option<String> {
    match node {
        Node::Text(json::Node::Scalar(raw)) => Some(raw.to_string()),
        Node::Typed(..) => Some(node.to_text()),
        Node::Null => Some(String::new()),
        _ => None,
    }
}
