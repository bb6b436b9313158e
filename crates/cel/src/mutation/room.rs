//! How much the JSON of a value may take. A short expression can repeat a large value many times, which as a
//! value of expressions is shared and as JSON is not.

use object::Value;

/// The most bytes of the JSON of a value: what a request may have. Every value counts as one at least.
pub(super) const MOST_BYTES: usize = 3 << 20;

/// How deep values may be nested: as deep as in a request.
pub(super) const DEEPEST: usize = 512;

/// The value has no room.
#[derive(Debug)]
pub(super) struct NoRoom;

/// What is left of the room.
#[derive(Debug)]
pub(super) struct Room {
    left: usize,
}

impl Room {
    pub(super) fn new() -> Self {
        Self { left: MOST_BYTES }
    }

    /// Takes room for a text or a number of values.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.left = self.left.checked_sub(bytes).ok_or(NoRoom)?;
        Ok(())
    }

    /// Takes room for a tree. Says whether all of it is plain JSON.
    pub(super) fn take_tree(&mut self, tree: &Value) -> Result<bool, NoRoom> {
        self.take(1)?;
        let mut is_plain = true;
        match tree {
            Value::String(text) => self.take(text.len())?,
            Value::Bytes(bytes) => {
                self.take(bytes.len())?;
                is_plain = false;
            }
            Value::Raw(raw) => {
                self.take(raw.as_str().len())?;
                is_plain = false;
            }
            Value::List(items) => {
                for item in items.iter() {
                    is_plain &= self.take_tree(item)?;
                }
            }
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    self.take(key.len())?;
                    is_plain &= self.take_tree(value)?;
                }
            }
            _ => {}
        }
        Ok(is_plain)
    }
}
