//! How many questions to webhooks are under way at a time.
//!
//! 1. A question that is under way holds its review and a connection. All of them together hold at most
//!    [`MOST_BYTES`], where each counts as at least [`LEAST_BYTES`].
//! 2. One webhook has at most [`MOST_OF_WEBHOOK`] of them, so that one that does not answer leaves places for
//!    others.
//! 3. Further questions wait until their deadline, before their reviews are encoded. One that has no place by
//!    then is like one without an answer.

use super::configuration::Webhook;
use crate::families::{WEBHOOKS_UNDER_WAY, WEBHOOKS_WAITING, WEBHOOKS_WITHOUT_PLACE};
use metrics::GaugeGuard;
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

/// The most questions to one webhook: as many as [`outbound::Client`] sends at a time.
pub(crate) const MOST_OF_WEBHOOK: usize = 200;
/// The bytes of all questions: 80 of the largest reviews, or two thousand small ones.
const MOST_BYTES: usize = 256 << 20;
/// The least that a question counts: what its connection holds.
const LEAST_BYTES: usize = 128 << 10;
/// The bytes of a permit of the semaphore.
const UNIT: usize = 1 << 10;

/// The places of all webhooks of a server. Clones share them.
#[derive(Clone, Debug)]
pub struct Places {
    units: usize,
    free: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self::of(MOST_BYTES)
    }
}

/// A question that is under way, until it is dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    _of_webhook: SemaphorePermit<'a>,
    _of_all: SemaphorePermit<'a>,
    _counted: GaugeGuard,
}

/// There was no place before the deadline.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoPlace;

impl Places {
    /// Places for questions of so many bytes.
    pub(super) fn of(most_bytes: usize) -> Self {
        let units = most_bytes / UNIT;
        Self { units, free: Arc::new(Semaphore::new(units)) }
    }

    /// Waits for the place of a question to `webhook` with a review of so many bytes.
    pub(super) async fn take<'a>(
        &'a self,
        webhook: &'a Webhook,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Place<'a>, NoPlace> {
        let units = (bytes.max(LEAST_BYTES) / UNIT).min(self.units);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let places = async {
            let of_webhook = webhook.places.acquire().await.ok()?;
            let of_all = self.free.acquire_many(units).await.ok()?;
            Some((of_webhook, of_all))
        };
        let waiting = WEBHOOKS_WAITING.with([]).guard();
        let taken = timeout_at(deadline, places).await;
        drop(waiting);
        // The semaphores are never closed.
        let Ok(Some((of_webhook, of_all))) = taken else {
            WEBHOOKS_WITHOUT_PLACE.with([]).inc();
            return Err(NoPlace);
        };
        let counted = WEBHOOKS_UNDER_WAY.with([]).guard();
        Ok(Place { _of_webhook: of_webhook, _of_all: of_all, _counted: counted })
    }
}

#[cfg(test)]
mod tests {
    use super::super::configuration::Configuration;
    use super::*;
    use schema::view::View as _;
    use schema::views::admissionregistration::v1::MutatingWebhookConfiguration;
    use std::time::Duration;

    const MIB: usize = 1 << 20;

    /// Two webhooks.
    fn webhooks() -> [Arc<Webhook>; 2] {
        let text = r#"{"metadata":{"name":"c"},"webhooks":[{"name":"a"},{"name":"b"}]}"#;
        let ty = MutatingWebhookConfiguration::schema();
        let decoded = schema::json::decode(ty, text.as_bytes(), &schema::Limits::default()).unwrap();
        let configuration = Configuration::read(decoded.value.as_map().unwrap()).unwrap();
        configuration.webhooks.try_into().ok().expect("two webhooks")
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    #[tokio::test(start_paused = true)]
    async fn a_webhook_that_does_not_answer_leaves_places_for_others() {
        let (places, [one, other]) = (Places::default(), webhooks());
        let mut taken = Vec::new();
        for _ in 0..MOST_OF_WEBHOOK {
            taken.push(places.take(&one, 100, soon()).await.unwrap());
        }
        let begin = Instant::now();
        assert_eq!(places.take(&one, 100, soon()).await.unwrap_err(), NoPlace);
        assert_eq!(begin.elapsed().as_millis(), 50, "it waited until its deadline");
        drop(places.take(&other, 100, soon()).await.unwrap());
        assert_eq!(WEBHOOKS_UNDER_WAY.with([]).value(), 200.0);
        taken.pop();
        drop(places.take(&one, 100, soon()).await.unwrap());
        drop(taken);
        assert_eq!([&WEBHOOKS_UNDER_WAY, &WEBHOOKS_WAITING].map(|it| it.with([]).value()), [0.0, 0.0]);
        assert_eq!(WEBHOOKS_WITHOUT_PLACE.with([]).value(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn all_reviews_together_are_bounded_by_bytes() {
        let (places, [one, other]) = (Places::of(10 * MIB), webhooks());
        let held = [
            places.take(&one, 5 * MIB, soon()).await.unwrap(),
            places.take(&other, 4 * MIB, soon()).await.unwrap(),
        ];
        assert_eq!(places.take(&one, 2 * MIB, soon()).await.unwrap_err(), NoPlace);
        let small: Vec<_> = {
            let mut small = Vec::new();
            while let Ok(place) = places.take(&one, 1, soon()).await {
                small.push(place);
            }
            small
        };
        assert_eq!(small.len(), 8, "each counts as 128 kB");
        drop((held, small));
        let huge = places.take(&one, 100 * MIB, soon()).await;
        assert!(huge.is_ok(), "one is asked, however large its review is");
    }
}
