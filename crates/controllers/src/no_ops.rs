//! Controllers that have nothing to do here. Their names are accepted, and the log says once that they do
//! nothing, so that nobody waits for what they do elsewhere.

use crate::{Context, Controller};

/// Attaching volumes to nodes is for drivers, which are not part of this server.
pub(crate) const ATTACH_DETACH: Controller = Controller {
    name: "persistentvolume-attach-detach-controller",
    alias: "attachdetach",
    account: "attachdetach-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(say(context, "volumes are attached and detached by their drivers")),
};

/// Growing volumes is for drivers too.
pub(crate) const EXPANDER: Controller = Controller {
    name: "persistentvolume-expander-controller",
    alias: "persistentvolume-expander",
    account: "expand-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(say(context, "volumes are expanded by their drivers")),
};

async fn say(context: Context, why: &str) {
    let controller = context.name;
    log::info!(controller, why; "the controller does nothing");
}
