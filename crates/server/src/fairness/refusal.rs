//! What the 429 of a request says: why it is refused, its level with its seats, and its flow.
//!
//! The first line is that of the reference. The names of other flows are users and namespaces: they are in
//! the log, and in what those are told who may get `/debug/cost`, where they stand too.

use std::fmt::Write as _;
use std::time::Instant;

use flowcontrol::{Classified, Digest, Distinguisher, Refusal, Standing};
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use object::excerpt::shorten_to;
use object::quote::Quoted;

use super::{Waiting, set_headers};
use crate::error::plain_text;
use crate::request_info::RequestInfo;
use crate::{Query, Response};

/// The most bytes of a name in the text.
const MOST: usize = 256;

/// How many holders of seats are named.
const NAMED: usize = 5;

/// A request that got no seats.
pub(super) struct Refused<'a> {
    pub(super) class: &'a Classified<Waiting>,
    pub(super) digest: &'a Digest<'a>,
    /// The seats of the server.
    pub(super) all: u32,
    pub(super) why: Refusal,
    /// Whether the client may know who holds the seats.
    pub(super) names_holders: bool,
}

impl Refused<'_> {
    /// The 429.
    pub(super) fn response(&self) -> Response {
        let retry_after = self.class.retry_after();
        let look = self.class.standing(Instant::now(), flow);
        if look.is_new {
            self.log(&look.standing);
        }
        let mut response = too_many(retry_after, &self.text(&look.standing));
        set_headers(&mut response, self.class);
        response
    }

    fn text(&self, standing: &Standing) -> String {
        let why = match self.why {
            Refusal::NoSeats => "There are no free seats, and requests of the priority level do not wait.",
            Refusal::QueueFull => "There are no free seats, and as many requests of the flow wait as may.",
            Refusal::TimedOut => "There were no free seats while the request waited.",
        };
        let (level, schema) = (Quoted(self.class.level()), Quoted(self.class.schema()));
        let (seats, all, taken) = (standing.seats.unwrap_or_default(), self.all, standing.taken);
        let flow = self.class.flow(self.digest);
        let own = standing.seats_of(self.class.schema(), flow);
        let others = taken.saturating_sub(own);
        let mut out = format!(
            "{why}\nPriority level {level}: {seats} of the {all} seats of the server, {taken} taken, {} requests wait.\n",
            standing.waiting
        );
        let _ = match flow {
            "" => write!(out, "Flow schema {schema}, of one flow"),
            flow => write!(out, "Flow {} of flow schema {schema}", Quoted(&shorten_to(MOST, flow))),
        };
        let _ = writeln!(out, ": {own} of the seats taken. Other flows: {others}.");
        if self.names_holders {
            let _ = writeln!(out, "Most seats: {}.", named_holders(standing));
        }
        out
    }

    fn log(&self, standing: &Standing) {
        if !log::log_enabled!(log::Level::Debug) {
            return;
        }
        let (level, schema) = (self.class.level(), self.class.schema());
        let flow = shorten_to(MOST, self.class.flow(self.digest));
        let (seats, taken, waiting) = (standing.seats, standing.taken, standing.waiting);
        let holders = named_holders(standing);
        log::debug!(level, schema, flow:%, seats:?, taken, waiting, holders:%; "a request was refused: no free seats");
    }
}

/// The flows that hold most seats, each with its seats.
fn named_holders(standing: &Standing) -> String {
    let mut out = String::new();
    for holder in standing.holders.iter().take(NAMED) {
        let between = if out.is_empty() { "" } else { ", " };
        let flow = shorten_to(MOST, holder.flow.as_str());
        let _ = write!(out, "{between}{}/{flow}: {}", holder.schema, holder.seats);
    }
    out
}

/// What tells the flow of a request that holds seats.
pub(crate) fn flow(waiting: &Waiting, by: Distinguisher) -> String {
    match by {
        Distinguisher::None => String::new(),
        Distinguisher::User => waiting.user.name.clone(),
        Distinguisher::Namespace => {
            let query = Query::new(waiting.query.as_deref().unwrap_or_default());
            let info = RequestInfo::parse(&waiting.method, &waiting.path, query);
            info.ok().and_then(|info| info.namespace.map(str::to_owned)).unwrap_or_default()
        }
    }
}

/// 429: the client comes again after some seconds. `why` is for people.
pub(super) fn too_many(seconds: u64, why: &str) -> Response {
    let text = format!("Too many requests, please try again later.\n{why}");
    let mut response = plain_text(StatusCode::TOO_MANY_REQUESTS, text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest<'a>(user: &'a str, groups: &'a [String]) -> Digest<'a> {
        Digest {
            user,
            groups,
            is_resource_request: true,
            verb: "list",
            path: "/api/v1/pods",
            api_group: "",
            resource: "pods",
            subresource: "",
            namespace: "",
            name: "",
        }
    }

    fn waiting(user: &str) -> Waiting {
        let user = auth::User { name: user.into(), ..auth::User::anonymous() };
        let (path, query) = ("/api/v1/namespaces/n/pods".into(), None);
        Waiting { user: user.into(), method: http::Method::GET, path, query }
    }

    #[tokio::test]
    async fn text_names_the_level_and_the_flow_of_the_request_and_no_other_flow() {
        let flows = crate::Flows::new(4);
        let long = "j".repeat(10_000);
        let digests = ["joe", &long].map(|user| digest(user, &[]));
        let [joe, jane] = digests.each_ref().map(|digest| flows.classify(digest).unwrap());
        let latest = Instant::now() + std::time::Duration::from_secs(5);
        let least = flowcontrol::WorkEstimate::LEAST;
        let mut held = Vec::new();
        for (class, user) in [(&joe, "joe"), (&jane, long.as_str()), (&joe, "joe")] {
            held.push(flows.enter(class, waiting(user), least, latest, false).await.unwrap());
        }
        let refused = |why| {
            let (class, digest, all) = (&jane, &digests[1], flows.seats());
            Refused { class, digest, all, why, names_holders: false }
        };
        let standing = jane.standing(Instant::now(), flow).standing;
        let text = refused(Refusal::NoSeats).text(&standing);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "There are no free seats, and requests of the priority level do not wait.");
        assert_eq!(
            lines[1],
            "Priority level \"catch-all\": 4 of the 4 seats of the server, 3 taken, 0 requests wait."
        );
        let cut = format!("Flow \"{}... (9744 more bytes)\"", "j".repeat(MOST));
        assert!(lines[2].starts_with(&cut), "{text}");
        assert!(
            lines[2].ends_with(" of flow schema \"catch-all\": 1 of the seats taken. Other flows: 2."),
            "{text}"
        );
        assert!(!text.contains("joe") && lines.len() == 3, "{text}");
        let told = Refused { names_holders: true, ..refused(Refusal::NoSeats) }.text(&standing);
        assert!(told.contains("\nMost seats: catch-all/joe: 2, "), "{told}");
        for (why, words) in
            [(Refusal::QueueFull, "as many requests of the flow wait"), (Refusal::TimedOut, "while")]
        {
            assert!(refused(why).text(&standing).lines().next().unwrap().contains(words));
        }
        assert_eq!(
            named_holders(&standing),
            format!("catch-all/joe: 2, catch-all/{}... (9744 more bytes): 1", "j".repeat(MOST))
        );
        let response = refused(Refusal::NoSeats).response();
        assert_eq!(
            (response.status().as_u16(), &response.headers()[RETRY_AFTER]),
            (429, &HeaderValue::from(1))
        );
    }

    #[test]
    fn flows_are_told_apart_by_user_or_namespace() {
        let request = waiting("jane");
        let all = [Distinguisher::None, Distinguisher::User, Distinguisher::Namespace];
        assert_eq!(all.map(|by| flow(&request, by)), ["", "jane", "n"]);
    }

    #[test]
    fn the_log_names_those_who_hold_most() {
        let holder = |flow: &str, seats| flowcontrol::Holder {
            schema: "s".into(),
            flow: flow.into(),
            seats,
            requests: 1,
        };
        let holders_of = |count: u32| {
            let holders = (0..count).map(|at| holder(&format!("u{at}"), 10 - at)).collect();
            named_holders(&Standing { level: "l".into(), seats: Some(9), taken: 9, waiting: 0, holders })
        };
        assert_eq!(holders_of(2), "s/u0: 10, s/u1: 9");
        assert_eq!(holders_of(9).matches("s/").count(), NAMED);
    }
}
