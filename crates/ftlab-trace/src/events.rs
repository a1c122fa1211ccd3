//! The events of a recording: what there was of each, which of them was read, and what the recorder lost.

use ftlab_core::host::request::Remark;
use ftlab_core::host::warnings::{LOST_EVENTS, UNUSED_EVENTS};

/// An event that was not read may move so many times as much data as the one that was.
const MOST_TIMES: u64 = 4;

/// What there was of one event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    lines: u64,
    sectors: u64,
}

/// What there was of the events that a request may have. The first is the one that is read unless another is chosen.
#[derive(Debug)]
pub(crate) struct EventCounts<const EVENTS: usize> {
    /// What the recorder calls them, and the argument of the format that chooses them.
    names: [(&'static str, &'static str); EVENTS],
    counts: [Count; EVENTS],
}

impl<const EVENTS: usize> EventCounts<EVENTS> {
    pub(crate) fn new(names: [(&'static str, &'static str); EVENTS]) -> Self {
        Self { names, counts: [Count::default(); EVENTS] }
    }

    /// The event number `place` happened to a request of so many sectors.
    #[inline(always)]
    pub(crate) fn add(&mut self, place: usize, sectors: u64) {
        let count = &mut self.counts[place];
        count.lines += 1;
        count.sectors = count.sectors.saturating_add(sectors);
    }

    /// Those of another part of the recording as well.
    pub(crate) fn add_all(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            count.lines += more.lines;
            count.sectors = count.sectors.saturating_add(more.sectors);
        }
    }

    /// Those besides number `read` that there are.
    fn others(&self, read: usize) -> impl Iterator<Item = usize> {
        (0..EVENTS).filter(move |place| *place != read && self.counts[*place].lines > 0)
    }

    /// What to say of a recording with no request of event number `read`, if it has others.
    pub(crate) fn nothing_found(&self, read: usize, format: &str) -> Option<String> {
        let first = self.names[self.others(read).next()?].1;
        let others: Vec<&str> = self.others(read).map(|place| self.names[place].0).collect();
        Some(format!(
            "found no request with event {}; there are {}: choose one, as with --format {format}:{first}",
            self.names[read].0,
            others.join(", ")
        ))
    }

    /// Which events there are besides number `read`, and whether most of the data is in one of them.
    pub(crate) fn remark(&self, read: usize, format: &str) -> Option<Remark> {
        self.others(read).next()?;
        let told = |place: usize| format!("{} {}", self.counts[place].lines, self.names[place].0);
        let others: Vec<String> = self.others(read).map(told).collect();
        let taken = self.counts[read];
        let largest =
            self.others(read).max_by_key(|place| (self.counts[*place].sectors, usize::MAX - place))?;
        let hidden = self.counts[largest].sectors > MOST_TIMES.saturating_mul(taken.sectors);
        let mut text =
            format!("of the events, {} were read; there are {} as well", told(read), others.join(", "));
        if hidden {
            let name = self.names[largest].0;
            text = format!("{text}, and {name} moves more than {MOST_TIMES} times as much data");
        }
        let argument = self.names[largest].1;
        let found = vec![
            ("read_events", taken.lines as f64),
            ("read_bytes", taken.sectors as f64 * 512.0),
            ("other_events", self.counts[largest].lines as f64),
            ("other_bytes", self.counts[largest].sectors as f64 * 512.0),
        ];
        let advice = format!("choose another event with --format {format}:{argument}");
        Some(Remark { code: hidden.then_some(UNUSED_EVENTS), text, advice, found })
    }
}

/// Events that a recorder says it lost in one place, as far as it says how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss(pub(crate) Option<u64>);

/// What a recorder says that it lost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lost {
    places: u64,
    events: u64,
    /// Places where it does not say how much.
    uncounted: u64,
}

impl Lost {
    /// Events are missing here.
    pub(crate) fn add(&mut self, Loss(events): Loss) {
        self.places += 1;
        self.uncounted += u64::from(events.is_none());
        self.events = self.events.saturating_add(events.unwrap_or(0));
    }

    /// So many events are missing, in so many places.
    pub(crate) fn add_counted(&mut self, places: u64, events: u64) {
        self.places = self.places.saturating_add(places);
        self.events = self.events.saturating_add(events);
    }

    pub(crate) fn remark(self) -> Option<Remark> {
        let Lost { places, events, uncounted } = self;
        let noun = if places == 1 { "place" } else { "places" };
        let text = match places {
            0 => return None,
            _ if uncounted == places => {
                format!("the recording lost events in {places} {noun}, and does not say how many")
            }
            _ if uncounted > 0 => format!("the recording lost more than {events} events in {places} {noun}"),
            _ => format!("the recording lost {events} events in {places} {noun}"),
        };
        let advice = "record again with larger buffers, or with fewer events";
        let found = vec![("lost_events", events as f64), ("places", places as f64)];
        Some(Remark { code: Some(LOST_EVENTS), text, advice: advice.into(), found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(usize, u64, u64)]) -> EventCounts<3> {
        let mut counts = EventCounts::new([("D", "D"), ("Q", "Q"), ("block_rq_complete", "complete")]);
        for (place, lines, sectors) in all {
            for _ in 0..*lines {
                counts.add(*place, *sectors);
            }
        }
        counts
    }

    /// Merging leaves fewer events with the same data, which is no reason to warn.
    #[test]
    fn what_is_not_read_is_told_and_warned_of_where_most_is_in_it() {
        assert_eq!(counts(&[(0, 5, 8)]).remark(0, "x"), None);
        let merged = counts(&[(0, 10, 800), (1, 1000, 8)]).remark(0, "x").unwrap();
        assert_eq!((merged.code, merged.advice.as_str()), (None, "choose another event with --format x:Q"));
        assert_eq!(merged.text, "of the events, 10 D were read; there are 1000 Q as well");
        for (queued, warned) in [(40, false), (41, true)] {
            let remark = counts(&[(0, 10, 8), (1, queued, 8), (2, 10, 8)]).remark(0, "x").unwrap();
            assert_eq!(remark.code.is_some(), warned, "{}", remark.text);
            assert!(remark.text.contains(&format!("{queued} Q, 10 block_rq_complete as well")));
        }
        assert_eq!(counts(&[]).nothing_found(0, "x"), None);
        let none = counts(&[(2, 1, 8)]).nothing_found(0, "x").unwrap();
        assert_eq!(
            none,
            "found no request with event D; there are block_rq_complete: choose one, as with --format x:complete"
        );
    }

    #[test]
    fn losses_are_summed_as_far_as_they_are_known() {
        let said = |all: &[Option<u64>]| {
            let mut lost = Lost::default();
            for events in all {
                lost.add(Loss(*events));
            }
            lost.remark().map(|remark| remark.text)
        };
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[Some(7)]).unwrap(), "the recording lost 7 events in 1 place");
        assert_eq!(said(&[Some(7), None]).unwrap(), "the recording lost more than 7 events in 2 places");
        assert!(said(&[None]).unwrap().ends_with("and does not say how many"));
    }
}
