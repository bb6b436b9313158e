//! `/debug/api_priority_and_fairness/`: what is in the levels, for those who look for what is stuck.

use auth::Authorizer;
use flowcontrol::{About, Table};
use http::StatusCode;

use super::{Flows, Waiting};
use crate::error::plain_text;
use crate::handler::{Handler, Layer};
use crate::request_info::RequestInfo;
use crate::{Error, Query, Request, Response, layers};

const PREFIX: &str = "/debug/api_priority_and_fairness/";

/// Answers the paths below `/debug/api_priority_and_fairness/`.
#[derive(Clone, Debug)]
pub struct FlowControlDebug {
    /// What is shown.
    pub flows: Flows,
    /// Who may see it.
    pub authorizer: Authorizer,
}

impl Layer for Option<FlowControlDebug> {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let Some((shown, rest)) = self.as_ref().zip(request.raw_path().strip_prefix(PREFIX)) else {
            return next.handle(request).await;
        };
        let details = request.query().values("includeRequestDetails").next();
        let table = match rest {
            "dump_priority_levels" => Table::Levels,
            "dump_queues" => Table::Queues,
            "dump_requests" => Table::Requests { details: details.is_some_and(|text| !text.is_empty()) },
            _ => return next.handle(request).await,
        };
        layers::permit(&shown.authorizer, &request).await?;
        Ok(plain_text(StatusCode::OK, shown.flows.dump(table, describe)))
    }
}

fn describe(waiting: &Waiting) -> About {
    let query = Query::new(waiting.query.as_deref().unwrap_or_default());
    let about = About { user: waiting.user.name.clone(), path: waiting.path.to_string(), ..About::default() };
    let Ok(info) = RequestInfo::parse(&waiting.method, &waiting.path, query) else { return about };
    let api_version = match info.api_group {
        "" => info.api_version.to_owned(),
        group => format!("{group}/{}", info.api_version),
    };
    About {
        verb: info.verb.as_str().to_owned(),
        namespace: info.namespace.unwrap_or_default().to_owned(),
        name: info.name.to_string(),
        api_version,
        resource: info.resource.to_owned(),
        subresource: info.subresource.to_owned(),
        ..about
    }
}
