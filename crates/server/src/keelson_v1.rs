//! `/keelson/v1`: what tests ask of a server, with `--enable-fault-injection`. Each path is authorized as a
//! path, and no fault meets a request for one.
//!
//! Without the flag nothing answers here, so that the paths are as unknown as any other.

mod clock_page;
mod faults_page;

use auth::Authorizer;
use faults::Faults;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use object::Map;
use object::field::{Aggregate, List};

use crate::handler::{Handler, Layer};
use crate::inject::Injection;
use crate::layers::permit;
use crate::{Body, Error, Request, Response, Status, body};

/// All paths of this module begin with it.
pub(crate) const PREFIX: &str = "/keelson/v1/";

/// Answers for the clock and the faults.
#[derive(Clone, Debug)]
pub(crate) struct KeelsonV1 {
    faults: Faults,
    authorizer: Authorizer,
}

impl KeelsonV1 {
    pub(crate) fn new(injection: &Injection, authorizer: Authorizer) -> Self {
        Self { faults: injection.faults().clone(), authorizer }
    }
}

impl Layer for Option<KeelsonV1> {
    async fn around<H: Handler>(&self, mut request: Request, next: &H) -> Result<Response, Error> {
        let path = request.head.uri.clone();
        let page = path.path().strip_prefix(PREFIX).map(|rest| rest.trim_end_matches('/'));
        let (Some(pages), Some(page @ ("clock" | "faults"))) = (self, page) else {
            return next.handle(request).await;
        };
        permit(&pages.authorizer, &request).await?;
        match page {
            "clock" => clock_page::answer(&mut request).await,
            _ => faults_page::answer(&pages.faults, &mut request).await,
        }
    }
}

/// The document in the body of a request.
async fn document(request: &mut Request) -> Result<Map, Error> {
    let body = body::read(&mut request.body, body::Limit::OBJECT).await?;
    faults::document::parse(&body).map_err(|why| Status::bad_request(why).into())
}

/// 422 with the path of each field that is wrong.
fn unprocessable(errors: List) -> Error {
    let mut status = Status::invalid("", "", "", &errors);
    status.message = Aggregate::new(errors).map_or_else(String::new, |all| all.to_string());
    status.into()
}

/// 405 with the methods that there are.
fn not_allowed(methods: &'static str) -> Response {
    let mut response = json(Status::method_not_allowed().to_json());
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

fn json(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
