//! What is in the levels, as text: for those who look for what is stuck, or who holds the seats.

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime};

use object::time::MicroTime;

use crate::control::FlowControl;
use crate::level::Entry;
use crate::queues::Arrived;
use crate::rules::Distinguisher;

/// What is said of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The name of the user.
    pub user: String,
    /// The verb.
    pub verb: String,
    /// The path.
    pub path: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The group and version.
    pub api_version: String,
    /// The resource.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
}

/// What a text is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// A line for each level.
    Levels,
    /// A line for each queue.
    Queues,
    /// A line for each request.
    Requests {
        /// Whether it says who sends what.
        details: bool,
    },
}

impl<T> FlowControl<T> {
    /// What is in the levels. `describe` says what is known of a request.
    pub fn dump(&self, table: Table, describe: impl Fn(&T) -> About) -> String {
        match table {
            Table::Levels => self.dump_levels(),
            Table::Queues => self.dump_queues(),
            Table::Requests { details } => self.dump_requests(details, describe),
        }
    }

    fn dump_levels(&self) -> String {
        let mut rows = vec![header(&[
            "PriorityLevelName",
            "ActiveQueues",
            "IsIdle",
            "IsQuiescing",
            "WaitingRequests",
            "ExecutingRequests",
            "DispatchedRequests",
            "RejectedRequests",
            "TimedoutRequests",
            "CancelledRequests",
        ])];
        for (config, level, is_leaving) in self.levels() {
            let queues = level.queues();
            let active = queues.contents().iter().filter(|queue| !queue.waiting.is_empty()).count();
            let totals = queues.totals;
            rows.push(vec![
                config.name.to_string(),
                active.to_string(),
                queues.is_idle().to_string(),
                is_leaving.to_string(),
                totals.waiting.to_string(),
                totals.executing.to_string(),
                totals.dispatched.to_string(),
                totals.rejected.to_string(),
                totals.timed_out.to_string(),
                totals.cancelled.to_string(),
            ]);
        }
        text(&rows)
    }

    fn dump_queues(&self) -> String {
        let mut rows = vec![header(&[
            "PriorityLevelName",
            "Index",
            "PendingRequests",
            "ExecutingRequests",
            "SeatsInUse",
            "NextDispatchR",
            "InitialSeatsSum",
            "MaxSeatsSum",
            "TotalWorkSum",
        ])];
        for (config, level, _) in self.levels() {
            let queues = level.queues();
            let mut contents = queues.contents();
            // The last is of the requests without a queue.
            contents.pop();
            for (index, queue) in contents.iter().enumerate() {
                rows.push(vec![
                    config.name.to_string(),
                    index.to_string(),
                    queue.waiting.len().to_string(),
                    queue.executing.len().to_string(),
                    queue.seats_in_use.to_string(),
                    queue.next_progress.to_string(),
                    queue.initial_seats.to_string(),
                    queue.most_seats.to_string(),
                    queue.work.to_string(),
                ]);
            }
        }
        text(&rows)
    }

    fn dump_requests(&self, details: bool, describe: impl Fn(&T) -> About) -> String {
        let mut head = header(&[
            "PriorityLevelName",
            "FlowSchemaName",
            "QueueIndex",
            "RequestIndexInQueue",
            "FlowDistingsher",
            "ArriveTime",
            "InitialSeats",
            "FinalSeats",
            "AdditionalLatency",
            "StartTime",
        ]);
        if details {
            let more =
                ["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"];
            head.extend(header(&more));
        }
        let mut rows = vec![head];
        let clocks = (Instant::now(), clock::system());
        for (config, level, _) in self.levels() {
            let queues = level.queues();
            let contents = queues.contents();
            let last = contents.len().saturating_sub(1);
            let row = |queue: usize, place: Option<usize>, request: &Arrived<Entry<T>>| {
                let index = if queue == last { "-1".to_owned() } else { queue.to_string() };
                let place = place.map_or("-1".to_owned(), |place| place.to_string());
                let about = describe(&request.about.about);
                let mut row =
                    vec![config.name.to_string(), request.about.schema.name.to_string(), index, place];
                row.extend(request_columns(request, &about, clocks));
                if details {
                    row.extend([
                        about.user,
                        about.verb,
                        about.path,
                        about.namespace,
                        about.name,
                        about.api_version,
                        about.resource,
                        about.subresource,
                    ]);
                }
                row
            };
            for (index, queue) in contents.iter().enumerate() {
                let waiting = queue.waiting.iter().enumerate();
                rows.extend(waiting.map(|(place, request)| row(index, Some(place), request)));
                rows.extend(queue.executing.iter().map(|request| row(index, None, request)));
            }
        }
        text(&rows)
    }
}

/// What tells the flow of a request, when it came and how wide it is.
fn request_columns<T>(
    request: &Arrived<Entry<T>>,
    about: &About,
    (now, clock): (Instant, SystemTime),
) -> [String; 6] {
    let flow = match request.about.schema.distinguisher {
        Distinguisher::None => String::new(),
        Distinguisher::User => about.user.clone(),
        Distinguisher::Namespace => about.namespace.clone(),
    };
    let time = |at: Option<Instant>| {
        at.map_or(MicroTime::ZERO, |at| (clock - now.saturating_duration_since(at)).into()).to_string()
    };
    [
        flow,
        time(Some(request.arrived)),
        request.estimate.initial_seats.to_string(),
        request.estimate.final_seats.to_string(),
        duration(request.estimate.additional_latency),
        time(request.started),
    ]
}

fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The rows, with commas between columns that are as wide as their widest cell, at least eight.
fn text(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        // With its comma and a space after it.
        cells.map(|cell| cell.chars().count() + 2).max().unwrap_or_default().max(8)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        for (index, cell) in row.iter().enumerate() {
            if index + 1 == row.len() {
                out.push_str(cell);
            } else {
                let width = widths.get(index).copied().unwrap_or_default();
                let _ = write!(out, "{:<width$}", format!("{cell},"));
            }
        }
        out.push('\n');
    }
    out
}

fn duration(time: Duration) -> String {
    if time.is_zero() {
        return "0s".to_owned();
    }
    format!("{time:?}")
}
