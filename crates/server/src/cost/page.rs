//! `/debug/cost`: the table of costs, and who holds the seats of priority levels, as text or JSON.
//!
//! `by=user`, `by=agent` and `by=resource` show sums, `top=10` the first rows only. Text is the default, also
//! for clients that prefer JSON and accept anything, as kubectl does; `format=json` asks for JSON.

use std::collections::HashMap;
use std::fmt::Write as _;

use auth::{Attributes, Authorizer, User};
use flowcontrol::Standing;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use schema::json::string as quoted;

use super::Costs;
use super::table::{HALF_LIFE, Key, MOST_ROWS, Row, Shown, Sums};
use crate::error::plain_text;
use crate::fairness::{self, Flows};
use crate::handler::{Handler, Layer};
use crate::{Body, Error, Query, Request, Response, layers};

const PATH: &str = "/debug/cost";

/// How many holders of the seats of a level are shown.
const HOLDERS: usize = 20;

/// Answers `/debug/cost` to those who may get it.
#[derive(Clone, Debug)]
pub(crate) struct CostPage {
    pub(crate) costs: Costs,
    /// The priority levels, if there are any.
    pub(crate) flows: Option<Flows>,
    pub(crate) authorizer: Authorizer,
}

impl Layer for CostPage {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        if request.raw_path() != PATH {
            return next.handle(request).await;
        }
        layers::permit(&self.authorizer, &request).await?;
        let wanted = match Wanted::of(request.query(), request.header(ACCEPT)) {
            Ok(wanted) => wanted,
            Err(why) => return Ok(plain_text(StatusCode::BAD_REQUEST, why)),
        };
        let levels = self.flows.as_ref().map(|flows| flows.standings(fairness::flow)).unwrap_or_default();
        let Shown { rows, others, all } = self.costs.shown();
        let page = Page { rows: wanted.of_rows(rows), others, all, levels };
        Ok(match wanted.form {
            Form::Text => plain_text(StatusCode::OK, page.text()),
            Form::Json => {
                let mut response = Response::new(Body::from(page.json()));
                let media_type = HeaderValue::from_static("application/json");
                response.headers_mut().insert(CONTENT_TYPE, media_type);
                response
            }
        })
    }
}

/// Whether a user may know who holds the seats of priority levels: whoever may get this page.
pub(crate) fn may_see_holders(authorizer: &Authorizer, user: &User) -> bool {
    authorizer.allows_now(user, &Attributes::path("get", PATH))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

/// What rows are sums over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    All,
    User,
    Agent,
    Resource,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    form: Form,
    by: By,
    top: usize,
}

impl Wanted {
    fn of(query: Query<'_>, accept: &str) -> Result<Self, &'static str> {
        let first = |name| query.values(name).next().filter(|value| !value.is_empty());
        let form = match first("format").as_deref() {
            None if accepts_json_only(accept) => Form::Json,
            None | Some("text") => Form::Text,
            Some("json") => Form::Json,
            Some(_) => return Err("format is text or json\n"),
        };
        let by = match first("by").as_deref() {
            None => By::All,
            Some("user") => By::User,
            Some("agent") => By::Agent,
            Some("resource") => By::Resource,
            Some(_) => return Err("by is user, agent or resource\n"),
        };
        let top = match first("top").map(|text| text.parse()) {
            None => MOST_ROWS,
            Some(Ok(top)) => top,
            Some(Err(_)) => return Err("top is a number of rows\n"),
        };
        Ok(Self { form, by, top })
    }

    /// The rows that are asked for, those that cost most first.
    fn of_rows(self, rows: Vec<Row>) -> Vec<Row> {
        let key = |key: Key| match self.by {
            By::All => key,
            By::User => Key { user: key.user, ..Key::default() },
            By::Agent => Key { agent: key.agent, ..Key::default() },
            By::Resource => Key { resource: key.resource, ..Key::default() },
        };
        let mut sums: HashMap<Key, Row> = HashMap::new();
        for row in rows {
            let key = key(row.key);
            let sum = sums.entry(key).or_insert_with_key(|key| Row::none(key.clone()));
            sum.late += row.late;
            sum.total += row.total;
        }
        let mut rows: Vec<Row> = sums.into_values().collect();
        rows.sort_by(|a, b| b.late.busy.total_cmp(&a.late.busy).then_with(|| a.key.cmp(&b.key)));
        rows.truncate(self.top);
        rows
    }
}

/// Whether `Accept` has JSON, and neither text nor everything.
fn accepts_json_only(accept: &str) -> bool {
    let mut ranges = accept.split(',').filter_map(|range| range.split(';').next()).map(str::trim);
    ranges.clone().any(|range| range == "application/json")
        && !ranges.any(|range| matches!(range, "*/*" | "text/*" | "text/plain"))
}

/// What is shown.
struct Page {
    rows: Vec<Row>,
    others: Row,
    all: Row,
    levels: Vec<Standing>,
}

impl Page {
    fn text(&self) -> String {
        let minutes = HALF_LIFE.as_secs() / 60;
        let mut out = format!(
            "Costs by user, user agent and resource: of late (half of it is gone after {minutes} minutes), and since the \
             start.\nCPU time is the time on workers of requests and of their responses.\n\n"
        );
        let heads = ["CPU-SECONDS", "REQUESTS", "SENT-BYTES", "READ-OBJECTS", "EVENTS", "REFUSALS"];
        let mut head: Vec<String> = ["USER", "USER-AGENT", "RESOURCE"].map(str::to_owned).into();
        head.extend(heads.map(str::to_owned));
        head.extend(heads.map(|head| format!("ALL-{head}")));
        let cells = |name: Option<&str>, row: &Row| {
            let names = match name {
                Some(name) => [name.to_owned(), String::new(), String::new()],
                None => [&row.key.user, &row.key.agent, &row.key.resource].map(|name| shown(name)),
            };
            let sums = [row.late, row.total].map(|sums| sums.shown());
            let [late, total] = sums.map(|[busy, counts @ ..]| {
                [format!("{busy:.6}")].into_iter().chain(counts.map(|count| format!("{count:.0}")))
            });
            names.into_iter().chain(late).chain(total).collect::<Vec<_>>()
        };
        let mut rows = vec![head];
        rows.extend(self.rows.iter().map(|row| cells(None, row)));
        rows.push(cells(Some("(others)"), &self.others));
        rows.push(cells(Some("(all)"), &self.all));
        columns(&rows, &mut out);
        if !self.levels.is_empty() {
            out.push_str(
                "\nSeats of priority levels, and the flows that hold them (schema/flow: seats).\n\n",
            );
            let mut rows =
                vec![["LEVEL", "SEATS", "TAKEN", "WAITING", "HOLDERS"].map(str::to_owned).to_vec()];
            rows.extend(self.levels.iter().map(|level| {
                vec![
                    shown(&level.level),
                    level.seats.map_or("-".to_owned(), |seats| seats.to_string()),
                    level.taken.to_string(),
                    level.waiting.to_string(),
                    holders(level),
                ]
            }));
            columns(&rows, &mut out);
        }
        out
    }

    fn json(&self) -> String {
        let mut out = format!("{{\"halfLifeSeconds\":{},\"rows\":", HALF_LIFE.as_secs());
        list(&self.rows, &mut out, |row, out| {
            let Key { user, agent, resource } = &row.key;
            let (user, agent, resource) = (quoted(user), quoted(agent), quoted(resource));
            let _ = write!(out, "{{\"user\":{user},\"userAgent\":{agent},\"resource\":{resource},");
            sums(row, out);
            out.push('}');
        });
        for (name, row) in [("others", &self.others), ("all", &self.all)] {
            let _ = write!(out, ",\"{name}\":{{");
            sums(row, &mut out);
            out.push('}');
        }
        out.push_str(",\"levels\":");
        list(&self.levels, &mut out, |level, out| {
            let (name, taken, waiting) = (quoted(&level.level), level.taken, level.waiting);
            let seats = level.seats.map_or("null".to_owned(), |seats| seats.to_string());
            let _ = write!(
                out,
                "{{\"name\":{name},\"seats\":{seats},\"taken\":{taken},\"waiting\":{waiting},\"holders\":"
            );
            list(level.holders.iter().take(HOLDERS), out, |holder, out| {
                let (schema, flow) = (quoted(&holder.schema), quoted(&holder.flow));
                let (seats, requests) = (holder.seats, holder.requests);
                let _ = write!(
                    out,
                    "{{\"flowSchema\":{schema},\"flow\":{flow},\"seats\":{seats},\"requests\":{requests}}}"
                );
            });
            out.push('}');
        });
        out.push_str("}\n");
        out
    }
}

/// A list in JSON.
fn list<T>(items: impl IntoIterator<Item = T>, out: &mut String, write: impl Fn(T, &mut String)) {
    out.push('[');
    for (place, item) in items.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(']');
}

/// The sums of a row in JSON.
fn sums(row: &Row, out: &mut String) {
    for (place, (name, sums)) in [("recent", &row.late), ("total", &row.total)].into_iter().enumerate() {
        let between = if place > 0 { "," } else { "" };
        let _ = write!(out, "{between}\"{name}\":{{");
        for (place, (name, value)) in Sums::NAMES.iter().zip(sums.shown()).enumerate() {
            let between = if place > 0 { "," } else { "" };
            let _ = write!(out, "{between}\"{name}\":{value}");
        }
        out.push('}');
    }
}

/// The flows that hold seats.
fn holders(level: &Standing) -> String {
    let named = level.holders.iter().take(HOLDERS);
    let mut named: Vec<String> = named
        .map(|holder| format!("{}/{}: {}", shown(&holder.schema), shown(&holder.flow), holder.seats))
        .collect();
    if level.holders.len() > HOLDERS {
        named.push(format!("{} more", level.holders.len() - HOLDERS));
    }
    named.join(", ")
}

/// A name in a line of text.
fn shown(name: &str) -> String {
    name.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// The rows, with columns that are as wide as their widest cell.
fn columns(rows: &[Vec<String>], out: &mut String) {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    for row in rows {
        let begin = out.len();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(out, "{cell:<width$}  ");
        }
        out.truncate(begin + out.get(begin..).unwrap_or_default().trim_end().len());
        out.push('\n');
    }
}

#[cfg(test)]
mod tests;
