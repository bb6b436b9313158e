//! The requests that wait in a queue, in the order of their arrival, with sums over them.

use std::collections::VecDeque;

use super::Ticket;
use crate::work::SeatSeconds;

/// Requests that wait.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    tickets: VecDeque<Ticket>,
    work: SeatSeconds,
    initial_seats: u32,
    most_seats: u32,
}

impl Fifo {
    pub(crate) fn push(&mut self, ticket: Ticket, work: SeatSeconds, initial_seats: u32, most_seats: u32) {
        self.tickets.push_back(ticket);
        self.work += work;
        self.initial_seats += initial_seats;
        self.most_seats += most_seats;
    }

    /// Removes a request, wherever it is.
    pub(crate) fn remove(&mut self, ticket: Ticket, work: SeatSeconds, initial_seats: u32, most_seats: u32) {
        let Some(place) = self.tickets.iter().position(|known| *known == ticket) else { return };
        self.tickets.remove(place);
        self.work -= work;
        self.initial_seats -= initial_seats;
        self.most_seats -= most_seats;
    }

    pub(crate) fn first(&self) -> Option<Ticket> {
        self.tickets.front().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.tickets.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.tickets.iter().copied()
    }

    /// The work of all.
    pub(crate) fn work(&self) -> SeatSeconds {
        self.work
    }

    /// The initial seats of all.
    pub(crate) fn initial_seats(&self) -> u32 {
        self.initial_seats
    }

    /// The most seats of all.
    pub(crate) fn most_seats(&self) -> u32 {
        self.most_seats
    }
}
