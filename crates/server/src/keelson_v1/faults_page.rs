//! `/keelson/v1/faults`: the rules that are in force.

use faults::{Faults, MOST_RULES};
use http::{Method, StatusCode};

use super::{document, is_read, json, not_allowed, unprocessable};
use crate::{Error, Reason, Request, Response, Status};

pub(super) async fn answer(faults: &Faults, request: &mut Request) -> Result<Response, Error> {
    match request.method() {
        method if is_read(method) => {}
        &Method::PUT => {
            let plan = faults::read_plan(&document(request).await?).map_err(unprocessable)?;
            let rules = plan.rules.len();
            let seed = faults.replace(plan);
            log::warn!(seed, rules; "faults are injected from now on");
        }
        &Method::POST => {
            let rule = faults::read_rule(&document(request).await?).map_err(unprocessable)?;
            let name = rule.name.clone();
            if !faults.add(rule) {
                let why = format!("there is a rule {name:?} already, or there are {MOST_RULES} rules");
                return Err(Status { code: 409, reason: Reason::Conflict, ..Status::bad_request(why) }.into());
            }
            log::warn!(seed = faults.seed().unwrap_or_default(), rule = name.as_str(); "another fault is injected from now on");
        }
        &Method::DELETE => {
            faults.clear();
            log::warn!("no faults are injected any more");
        }
        _ => return Ok(not_allowed("GET, HEAD, PUT, POST, DELETE")),
    }
    let mut response = json(faults.to_json());
    if request.method() == Method::POST {
        *response.status_mut() = StatusCode::CREATED;
    }
    Ok(response)
}
