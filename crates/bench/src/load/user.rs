//! Reads of pods by the client that was given, which is the administrator, and by a user with a role, in
//! turn.
//!
//! The rounds take turns, so that what else the machine does hits both alike. The difference is what the
//! permission of the user costs.

use super::{
    client::{Call, Endpoint},
    measure::{Drive, Measured},
    scenario,
    target::Target,
};
use serde_json::{Value, json};
use std::sync::Arc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The version of roles.
pub(crate) const RBAC: &str = "apis/rbac.authorization.k8s.io/v1";
/// How often both read.
const ROUNDS: usize = 10;

/// What the reads took.
#[derive(Default)]
pub(crate) struct Compared {
    pub(crate) administrator: Measured,
    pub(crate) user: Measured,
}

/// Lets the user read pods, and measures.
pub(crate) async fn compare(target: &Target) -> Result<Compared, Failure> {
    let user = target.user.as_ref().ok_or("there is no other client")?;
    permit(target, user).await.map_err(|cause| format!("the role could not be made: {cause}"))?;
    let mut compared = Compared::default();
    for _ in 0..ROUNDS {
        for (endpoint, sum) in [(&target.endpoint, &mut compared.administrator), (user, &mut compared.user)] {
            let drive = Drive::prepare(endpoint, scenario::reads(&target.plan)).await?;
            sum.add(drive.run(&target.processes).await?);
        }
    }
    Ok(compared)
}

/// Makes a role for pods, and binds it to the user.
async fn permit(target: &Target, user: &Arc<Endpoint>) -> Result<(), Failure> {
    let review = Call::post("/apis/authentication.k8s.io/v1/selfsubjectreviews".into(), "{}");
    let review = user.connect().await?.ask(&review).await?.succeeded()?.json()?;
    let name = review.pointer("/status/userInfo/username").and_then(Value::as_str);
    let name = name.ok_or("the server does not say who the user is")?;
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "read-pods"});
    let role = json!({
        "metadata": metadata,
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    });
    let binding = json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "read-pods"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
    });
    let mut connection = target.endpoint.connect().await?;
    for (resource, object) in [("roles", role), ("rolebindings", binding)] {
        let call = Call::post(target.plan.group_path(RBAC, resource), object.to_string());
        connection.ask(&call).await?.succeeded()?;
    }
    Ok(())
}
