//! Which text format a client gets.

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Text,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// What follows the last family.
    pub(crate) const fn end(self) -> &'static str {
        match self {
            Self::Text => "",
            Self::OpenMetrics => "# EOF\n",
        }
    }
}

/// How characters that names of old had not are written. All names have only those of old, so that clients
/// merely get back what they asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaping(&'static str);

const ESCAPINGS: [&str; 4] = ["underscores", "allow-utf-8", "dots", "values"];

/// The format and escaping that a client gets, by its `Accept`. Without one that is known it gets
/// [`Format::Text`].
pub fn negotiate(accept: &str) -> (Format, Escaping) {
    let mut clauses: Vec<(f64, &str)> = accept.split(',').map(|clause| (quality(clause), clause)).collect();
    clauses.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    let mut escaping = Escaping(ESCAPINGS[0]);
    for (_, clause) in clauses {
        if let Some(asked) = ESCAPINGS.iter().find(|name| parameter(clause, "escaping") == Some(**name)) {
            escaping = Escaping(asked);
        }
        let media_type = clause.split(';').next().unwrap_or_default().trim();
        match (media_type, parameter(clause, "version")) {
            ("text/plain", None | Some("" | "0.0.4")) => return (Format::Text, escaping),
            ("application/openmetrics-text", None | Some("" | "0.0.1" | "1.0.0")) => {
                return (Format::OpenMetrics, escaping);
            }
            _ => {}
        }
    }
    (Format::Text, escaping)
}

/// The value of `Content-Type`.
pub fn content_type(format: Format, escaping: Escaping) -> String {
    let format = match format {
        Format::Text => "text/plain; version=0.0.4",
        Format::OpenMetrics => "application/openmetrics-text; version=1.0.0",
    };
    format!("{format}; charset=utf-8; escaping={}", escaping.0)
}

fn quality(clause: &str) -> f64 {
    parameter(clause, "q").and_then(|quality| quality.parse().ok()).unwrap_or(1.0)
}

/// The value of a parameter of a clause.
fn parameter<'a>(clause: &'a str, name: &str) -> Option<&'a str> {
    let parameters = clause.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    parameters
        .map(|(known, value)| (known.trim(), value.trim()))
        .find_map(|(known, value)| (known == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_format_is_chosen() {
        let chosen = |accept| {
            let (format, escaping) = negotiate(accept);
            content_type(format, escaping)
        };
        let text = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
        for accept in ["", "*/*", "text/html", "text/plain", "application/openmetrics-text;version=2.0.0"] {
            assert_eq!(chosen(accept), text, "{accept}");
        }
        let open = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=";
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
                          q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(chosen(prometheus), format!("{open}underscores"));
        let accept = "text/plain;version=0.0.4;q=0.5,application/openmetrics-text;escaping=allow-utf-8;q=0.6";
        assert_eq!(chosen(accept), format!("{open}allow-utf-8"));
        let text = "text/plain; version=0.0.4; charset=utf-8; escaping=allow-utf-8";
        assert_eq!(chosen("text/plain;version=1.0.0;escaping=allow-utf-8"), text);
    }
}
