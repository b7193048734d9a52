//! Guards: a user gives its place back and a request leaves a record, however their task ends.

use std::sync::Arc;

use crate::loadgen::board::Board;
use crate::loadgen::intake::Intake;
use crate::loadgen::record::Outcome;

/// A user's place on the board, given back when its task ends in whatever way.
pub(crate) struct Seat {
    pub(crate) board: Arc<Board>,
    pub(crate) user: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.board.left(self.user);
    }
}

/// A request in flight. However it ends (also by a task that is aborted), it leaves one record.
pub(crate) struct Flight<'a> {
    seat: &'a Seat,
    intake: Option<Intake>,
}

impl<'a> Flight<'a> {
    pub(crate) fn begin(seat: &'a Seat, intake: Intake) -> Self {
        seat.board.begin(seat.user, intake.progress());
        Self { seat, intake: Some(intake) }
    }

    /// What has come back; none once the flight has ended.
    pub(crate) fn intake(&mut self) -> Option<&mut Intake> {
        self.intake.as_mut()
    }

    /// Ends the flight; says whether its user may send another request.
    pub(crate) fn finish(mut self, outcome: Outcome) -> bool {
        self.end(outcome)
    }

    fn end(&mut self, outcome: Outcome) -> bool {
        let board = &self.seat.board;
        match self.intake.take() {
            Some(intake) => board.end(self.seat.user, Box::new(intake.into_record(board.now(), outcome))),
            None => false,
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.intake.is_some() {
            let outcome = self.seat.board.given_up();
            self.end(outcome);
        }
    }
}
