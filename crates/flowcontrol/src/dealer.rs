//! Shuffle sharding: each flow gets a hand of queues, and two flows rarely get the same one.

/// The most queues of a hand.
pub(crate) const MOST_CARDS: usize = 15;

/// The most bits of a hash that a deal may use: with more, the last card would be uneven.
const MOST_BITS: f64 = 60.0;

/// The most queues of a level.
const MOST_QUEUES: usize = 1 << 26;

/// Deals hands out of a deck of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dealer {
    deck: usize,
    hand: usize,
}

impl Dealer {
    /// Deals `hand` of `deck` queues; `None` if that is not possible.
    pub(crate) fn new(deck: usize, hand: usize) -> Option<Self> {
        if deck == 0 || deck > MOST_QUEUES || hand == 0 || hand > deck || hand > MOST_CARDS {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "both are small")]
        let bits = ((deck as f64).log2() * hand as f64).ceil();
        (bits <= MOST_BITS).then_some(Self { deck, hand })
    }

    /// The hand of a flow, by its hash: different numbers below that of the deck.
    pub(crate) fn deal(self, mut hash: u64) -> Hand {
        let mut remainders = [0; MOST_CARDS];
        for (dealt, remainder) in remainders.iter_mut().enumerate().take(self.hand) {
            let left = (self.deck - dealt) as u64;
            *remainder = usize::try_from(hash % left).unwrap_or_default();
            hash /= left;
        }
        Hand::of(remainders, self.hand)
    }
}

/// The hand of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hand {
    cards: [usize; MOST_CARDS],
    len: usize,
}

impl Hand {
    /// A hand by the remainders of its deal: each is a card among those that are left. Among all it is
    /// higher by one for each card before it, from the last one on, that is not above it.
    fn of(remainders: [usize; MOST_CARDS], len: usize) -> Self {
        let mut cards = [0; MOST_CARDS];
        for (dealt, slot) in cards.iter_mut().enumerate().take(len) {
            let mut card = remainders.get(dealt).copied().unwrap_or_default();
            for before in remainders.iter().take(dealt).rev() {
                if card >= *before {
                    card += 1;
                }
            }
            *slot = card;
        }
        Self { cards, len }
    }

    /// How many queues it has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The queues, from the one at `first` on, and around.
    pub(crate) fn from(&self, first: usize) -> impl Iterator<Item = usize> + '_ {
        let len = self.len.max(1);
        (0..self.len).filter_map(move |step| self.cards.get((first + step) % len).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_has_different_queues_of_the_deck() {
        let dealer = Dealer::new(64, 6).unwrap();
        for _ in 0..10_000 {
            let hand = dealer.deal(fastrand::u64(..));
            let mut cards: Vec<usize> = hand.from(0).collect();
            cards.sort_unstable();
            cards.dedup();
            assert!(cards.len() == 6 && cards.iter().all(|card| *card < 64), "{cards:?}");
        }
    }

    #[test]
    fn every_queue_is_dealt_as_often() {
        let dealer = Dealer::new(8, 3).unwrap();
        let mut dealt = [0_u32; 8];
        for _ in 0..80_000 {
            dealer.deal(fastrand::u64(..)).from(0).for_each(|card| dealt[card] += 1);
        }
        assert!(dealt.iter().all(|times| (28_500..31_500).contains(times)), "{dealt:?}");
    }

    #[test]
    fn deals_that_a_hash_has_no_bits_for_are_impossible() {
        assert_eq!(Dealer::new(0, 0), None);
        assert_eq!(Dealer::new(4, 5), None);
        assert_eq!(Dealer::new(1024, 7), None);
        assert!(Dealer::new(1024, 6).is_some());
    }

    #[test]
    fn a_hand_is_read_from_any_of_its_queues_on() {
        let hand = Dealer::new(3, 3).unwrap().deal(0);
        assert_eq!(hand.from(0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(hand.from(4).collect::<Vec<_>>(), [1, 2, 0]);
    }
}
