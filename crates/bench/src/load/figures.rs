//! Figures of one scenario, and how those of two servers compare.

use super::{measure::Measured, user::Compared, watch::Watched};
use crate::report::Row;
use std::time::Duration;

/// The width of a value, so that rows stand below each other.
const WIDTH: usize = 8;

/// One figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
}

/// Which of two figures is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
    /// Neither: it says what was done.
    Neither,
}

/// The figures of some requests.
pub(crate) fn requests(measured: &Measured, memory: Option<u64>) -> Vec<Figure> {
    let count = measured.operations.max(1) as f64;
    let mut figures = vec![plain("operations", count)];
    figures.extend(measured.cpu.map(|cpu| less("cpu", micros(cpu) / count, "us")));
    figures.extend(with_store(measured).map(|cpu| less("with store", micros(cpu) / count, "us")));
    figures.push(plain("client cpu", micros(measured.client) / count).unit("us"));
    figures.push(more("rate", count / measured.elapsed.as_secs_f64(), "/s"));
    figures.extend(latencies(measured));
    figures.push(plain("body", measured.bytes as f64 / count).unit("B"));
    figures.extend(memory.map(in_megabytes));
    figures
}

/// The CPU time of the server and of a store with processes of its own.
fn with_store(measured: &Measured) -> Option<Duration> {
    Some(measured.cpu? + measured.store?)
}

/// The figures of changes to watchers.
pub(crate) fn watched(watched: &Watched, memory: Option<u64>) -> Vec<Figure> {
    let (with, alone) = (&watched.with, &watched.alone);
    let count = with.operations.max(1) as f64;
    let deliveries = count * watched.watchers as f64;
    let mut figures = vec![plain("events", count), plain("watchers", watched.watchers as f64)];
    figures.extend(watched.cpu_of_one().map(|cpu| less("cpu per event and watcher", micros(cpu), "us")));
    figures.extend(with.cpu.map(|cpu| less("cpu per event", micros(cpu) / count, "us")));
    figures.extend(with_store(with).map(|cpu| less("with store", micros(cpu) / count, "us")));
    figures.extend(alone.cpu.map(|cpu| less("without watchers", micros(cpu) / count, "us")));
    figures.push(plain("client cpu", micros(with.client) / deliveries).unit("us"));
    figures.push(more("rate", count / with.elapsed.as_secs_f64(), "/s"));
    figures.push(more("deliveries", deliveries / with.elapsed.as_secs_f64(), "/s"));
    figures.extend(latencies(with));
    figures.push(plain("body", with.bytes as f64 / deliveries).unit("B"));
    figures.extend(memory.map(in_megabytes));
    figures
}

/// The figures of the reads of two clients.
pub(crate) fn compared(compared: &Compared, memory: Option<u64>) -> Vec<Figure> {
    let Compared { administrator, user } = compared;
    let cpu_of = |measured: &Measured| Some(micros(measured.cpu?) / measured.operations.max(1) as f64);
    let mut figures = vec![plain("operations", user.operations.max(1) as f64)];
    if let Some((given, own)) = cpu_of(administrator).zip(cpu_of(user)) {
        figures.push(less("cpu as administrator", given, "us"));
        figures.push(less("as user", own, "us"));
        figures.push(plain("difference", own - given).unit("us"));
    }
    figures.push(more("rate", user.operations as f64 / user.elapsed.as_secs_f64(), "/s"));
    figures.extend(latencies(user));
    figures.extend(memory.map(in_megabytes));
    figures
}

/// The figures of a server that has nothing to do.
pub(crate) fn at_rest(cpu: Duration, memory: u64) -> Vec<Figure> {
    vec![less("cpu", millis(cpu), "ms"), in_megabytes(memory)]
}

/// The figures of some starts: the one in the middle, and the longest.
pub(crate) fn starts(ready: &[Duration], cpu: &[Duration]) -> Vec<Figure> {
    let sorted = |times: &[Duration]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    let middle = |times: &[Duration]| times.get(times.len() / 2).copied().unwrap_or_default();
    let (ready, cpu) = (sorted(ready), sorted(cpu));
    vec![
        plain("starts", ready.len() as f64),
        less("ready", millis(middle(&ready)), "ms"),
        less("max", millis(ready.last().copied().unwrap_or_default()), "ms"),
        less("cpu", millis(middle(&cpu)), "ms"),
    ]
}

/// A row of figures of one server.
pub(crate) fn row(scenario: &str, server: &str, figures: &[Figure]) -> Row {
    let row = Row::new(scenario).aligned(WIDTH).label("server", server);
    figures.iter().fold(row, |row, figure| row.figure(figure.name, figure.value, figure.unit))
}

/// A row that says how many times better the server is than the other: above 1 it is better, below 1 worse.
pub(crate) fn ratio(scenario: &str, server: &[Figure], against: &[Figure]) -> Row {
    let row = Row::new(scenario).aligned(WIDTH).label("server", "ratio");
    let pairs = server.iter().filter_map(|own| {
        let other = against.iter().find(|other| other.name == own.name)?;
        let times = match own.better {
            Better::Less => other.value / own.value,
            Better::More => own.value / other.value,
            Better::Neither => return None,
        };
        times.is_finite().then_some((own.name, times))
    });
    pairs.fold(row, |row, (name, times)| row.figure(name, times, "x"))
}

fn latencies(measured: &Measured) -> [Figure; 4] {
    let at = |name, part| less(name, millis(measured.latencies.within(part)), "ms");
    [at("p50", 0.5), at("p90", 0.9), at("p99", 0.99), at("max", 1.0)]
}

fn in_megabytes(bytes: u64) -> Figure {
    less("memory", bytes as f64 / 1e6, "MB")
}

fn less(name: &'static str, value: f64, unit: &'static str) -> Figure {
    Figure { name, value, unit, better: Better::Less }
}

fn more(name: &'static str, value: f64, unit: &'static str) -> Figure {
    Figure { name, value, unit, better: Better::More }
}

fn plain(name: &'static str, value: f64) -> Figure {
    Figure { name, value, unit: "", better: Better::Neither }
}

impl Figure {
    fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{load::measure::Latencies, report::Style};

    fn measured(millis: u64) -> Measured {
        let each = Duration::from_millis(millis);
        Measured {
            operations: 10,
            elapsed: each * 10,
            cpu: Some(each * 5),
            store: None,
            client: each,
            latencies: Latencies::new(vec![each; 10]),
            bytes: 1000,
        }
    }

    fn json(row: &Row) -> serde_json::Value {
        let mut out = Vec::new();
        row.write(Style::Json, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn figures_are_those_of_one_operation() {
        let row = json(&row("get", "server", &requests(&measured(2), Some(3_000_000))));
        let wanted = serde_json::json!({
            "bench": "get", "server": "server", "operations": 10.0, "cpu_us": 1000.0, "client_cpu_us": 200.0,
            "rate_per_s": 500.0, "p50_ms": 2.0, "p90_ms": 2.0, "p99_ms": 2.0, "max_ms": 2.0, "body_B": 100.0,
            "memory_MB": 3.0,
        });
        assert_eq!(row, wanted);
    }

    #[test]
    fn clients_are_compared_by_all_their_rounds() {
        let mut reads = Compared::default();
        for round in [1, 3] {
            reads.administrator.add(measured(round));
            reads.user.add(measured(round * 2));
        }
        let row = json(&row("get-user", "server", &compared(&reads, None)));
        let wanted = serde_json::json!({
            "bench": "get-user", "server": "server", "operations": 20.0, "cpu_as_administrator_us": 1000.0,
            "as_user_us": 2000.0, "difference_us": 1000.0, "rate_per_s": 250.0, "p50_ms": 2.0, "p90_ms": 6.0,
            "p99_ms": 6.0, "max_ms": 6.0,
        });
        assert_eq!(row, wanted);
    }

    #[test]
    fn a_ratio_above_one_means_better_whatever_the_figure() {
        let [own, other] = [(2, 1_000_000), (8, 5_000_000)]
            .map(|(millis, memory)| requests(&measured(millis), Some(memory)));
        let row = json(&ratio("get", &own, &other));
        let wanted = serde_json::json!({
            "bench": "get", "server": "ratio", "cpu_x": 4.0, "rate_x": 4.0, "p50_x": 4.0, "p90_x": 4.0,
            "p99_x": 4.0, "max_x": 4.0, "memory_x": 5.0,
        });
        assert_eq!(row, wanted);
    }

    #[test]
    fn a_missing_figure_has_no_ratio() {
        let unknown = Measured { cpu: None, ..measured(2) };
        let row = json(&ratio("get", &requests(&unknown, None), &requests(&measured(2), Some(1))));
        assert_eq!((row.get("cpu_x"), row.get("memory_x")), (None, None));
        let nothing = Measured { cpu: Some(Duration::ZERO), ..measured(2) };
        let row = json(&ratio("get", &requests(&nothing, None), &requests(&measured(2), None)));
        assert_eq!(row.get("cpu_x"), None);
    }

    #[test]
    fn the_start_is_the_one_in_the_middle() {
        let times = [5, 1, 3].map(Duration::from_millis);
        let row = json(&row("start", "server", &starts(&times, &times)));
        assert_eq!((row.get("ready_ms"), row.get("max_ms")), (Some(&3.0.into()), Some(&5.0.into())));
    }
}
