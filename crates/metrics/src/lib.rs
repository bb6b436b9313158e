//! Metrics of the process, by the names, labels and rules of the reference.
//!
//! A *family* is a static of the crate whose work it counts, declared with [`families!`]. Its *cells* are
//! what is counted: one for each set of label values. A family is served when it is
//! [registered](Registry::register).
//!
//! 1. Counting takes no lock: a cell is spread over shards, and each thread has its own. Finding a cell by
//!    its label values takes a read lock and no allocation; who counts for every request keeps the cell.
//! 2. A family has at most [`MOST_CELLS`] cells. What comes after those counts in one cell whose label
//!    values are all [`OVERFLOW`].
//! 3. A family whose label has a list of allowed values counts all others as [`UNEXPECTED`].
//! 4. A family without labels is served from the start, one with labels when it has a cell.
//!
//! The crate does no IO, and knows nothing of requests.

mod cell;
mod family;
mod meta;
mod negotiate;
mod observed;
mod registry;
mod summary;
mod text;

pub use cell::{Counter, Gauge, GaugeGuard, Histogram};
pub use family::{
    Allowed, Bundles, Cell, CounterVec, Description, Family, GaugeVec, HistogramVec, Kind, Labelled, Labels,
    MOST_CELLS, OVERFLOW, Stability, SummaryVec, UNEXPECTED,
};
pub use meta::{server_hash, set_server_hash};
pub use negotiate::{Escaping, Format, content_type, negotiate};
pub use observed::{Observed, Samples};
pub use registry::{AllowedValues, MAIN, Options, Registry};
pub use summary::{Summary, SummaryConfig};
pub use text::Writer;

/// Declares families as statics, and `FAMILIES`, the list of them, so that none is forgotten when they are
/// registered.
///
/// ```
/// metrics::families! {
///     /// Backups that were made.
///     pub static BACKUPS: metrics::CounterVec<1> = metrics::CounterVec::new(
///         "keelson_backups_total", "Number of backups.", metrics::Stability::Alpha, ["outcome"],
///     );
/// }
/// BACKUPS.with(["done"]).inc();
/// metrics::MAIN.register(FAMILIES);
/// let text = metrics::MAIN.expose(metrics::Format::Text);
/// assert!(text.contains("keelson_backups_total{outcome=\"done\"} 1"));
/// ```
#[macro_export]
macro_rules! families {
    ($($(#[$meta:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$meta])* $visibility static $name: $type = $value;)*

        /// All families of this module.
        #[allow(unreachable_pub, reason = "some modules are private")]
        pub static FAMILIES: &[&dyn $crate::Family] = &[$(&$name),*];
    };
}
