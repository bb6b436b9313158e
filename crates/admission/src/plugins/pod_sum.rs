//! What the containers of a pod come to: requests or limits.

use super::resource_list::ResourceList;
use schema::views::core::v1::{Container, PodSpec};

/// The sum of the containers that run together, or, if that is more, of an init container and the sidecars
/// that are started before it. `running` says what a container has that goes on, `once` what an init
/// container has that ends.
pub(super) fn sum<'a>(
    spec: PodSpec<'a>,
    running: impl Fn(Container<'a>) -> ResourceList,
    once: impl Fn(Container<'a>) -> ResourceList,
) -> ResourceList {
    let mut sum = ResourceList::default();
    for container in spec.containers().iter() {
        sum.add(&running(container));
    }
    let (mut sidecars, mut init) = (ResourceList::default(), ResourceList::default());
    for container in spec.init_containers().iter() {
        if container.restart_policy() == Some("Always") {
            let own = running(container);
            sum.add(&own);
            sidecars.add(&own);
            init.raise(&sidecars);
        } else {
            let mut own = once(container);
            own.add(&sidecars);
            init.raise(&own);
        }
    }
    sum.raise(&init);
    sum
}
