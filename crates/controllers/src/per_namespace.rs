//! The work queue of a controller that creates an object of the same name in each namespace.

use crate::Context;
use crate::follow::{StartFrom, follow};
use crate::queue::Queue;
use cache::{Cursor, Resource, Update};
use object::Text;
use std::sync::Arc;
use tasks::Task;

/// The namespaces that may lack their object.
pub(crate) struct Namespaces {
    pub(crate) queue: Arc<Queue<Text>>,
    all: Arc<Resource>,
    #[expect(dead_code, reason = "they end with their owner")]
    followers: [Task; 2],
}

impl Namespaces {
    /// All namespaces, new ones, and those whose object changes from now on. None if there are no namespaces.
    pub(crate) fn of(context: &Context, objects: &Arc<Resource>, name: &'static str) -> Option<Self> {
        let all = context.resource("namespaces")?;
        let queue: Arc<Queue<Text>> = Arc::default();
        let of_namespaces = follow(all.clone(), StartFrom::State, {
            let queue = queue.clone();
            move |update| {
                if let Update::Change { before: None, after: Some(namespace) } = update {
                    queue.add(namespace.name().into());
                }
            }
        });
        let of_objects = follow(objects.clone(), StartFrom::Now, {
            let (queue, all) = (queue.clone(), all.clone());
            move |update| match update {
                Update::Reset => add_all(&queue, &all),
                Update::Change { before, after } => {
                    if let Some(object) = before.or(after).filter(|object| object.name() == name) {
                        queue.add(object.namespace().into());
                    }
                }
            }
        });
        Some(Self { queue, all, followers: [of_namespaces, of_objects] })
    }

    /// Adds every namespace to the queue whenever the authority changes, until the task is dropped.
    pub(crate) fn look_again_by_authority(&self, context: &Context) -> Task {
        let (queue, all) = (self.queue.clone(), self.all.clone());
        context.on_new_authority(move || add_all(&queue, &all))
    }

    /// The namespaces.
    pub(crate) fn all(&self) -> &Arc<Resource> {
        &self.all
    }
}

/// Whether a namespace exists and is not being deleted.
pub(crate) fn is_active(namespaces: &Resource, name: &str) -> bool {
    let found = namespaces.lookup("", name).ok().flatten();
    found.is_some_and(|found| !found.is_deleting())
}

fn add_all(queue: &Queue<Text>, namespaces: &Arc<Resource>) {
    Cursor::new(namespaces.clone()).advance(|update| {
        if let Update::Change { after: Some(namespace), .. } = update {
            queue.add(namespace.name().into());
        }
    });
}
