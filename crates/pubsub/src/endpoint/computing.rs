//! The computing part of an endpoint: the application, and what it goes on with when something is wrong.

use alloc::boxed::Box;

use units::{Nanos, Tai};

use super::passed::{Inputs, Outputs};
use super::values::Values;
use crate::application::{Application, Input, ReaderInput, Status, Step};
use crate::breach::{BreachChanges, BreachState, Condition, Cycle, Watch};
use crate::counter::{CounterApplication, Role};

/// The part of an endpoint that runs the application. It has its inputs from a [`Reading`](super::Reading) part, which
/// wants to know how far it has got; what it wrote, [`Self::outputs`], is for a [`Writing`](super::Writing) part.
#[derive(Debug, Clone)]
pub struct Computing {
    pub(super) application: CounterApplication,
    /// What is published next.
    pub(super) output: Box<[u8]>,
    /// What it watches for, if anything.
    pub(super) watch: Option<Box<Watch>>,
    /// Where its variables are, if they are more than the counter.
    pub(super) values: Option<Box<Values>>,
}

impl Computing {
    pub(super) fn new(application: CounterApplication, output: Box<[u8]>) -> Self {
        Self { application, output, watch: None, values: None }
    }

    /// Looks at the conditions that are watched for: [`Endpoint::supervise`](super::Endpoint::supervise).
    #[inline]
    pub fn supervise(&mut self, cycle: i64, now: Tai, tai_minus_utc: Nanos, inputs: Inputs<'_>) -> BreachChanges {
        let Self { watch: Some(watch), application, .. } = self else { return BreachChanges::NONE };
        let Some(signs) = inputs.signs else { return BreachChanges::NONE };
        watch.now = now;
        let elapsed = watch.fresh(signs).and_then(|counter| application.elapsed(counter, cycle));
        watch.judge(signs, Cycle { tai_minus_utc, elapsed })
    }

    /// Whether it neither watches nor has values: what most do, so the others stand behind one look.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.watch.is_none() && self.values.is_none()
    }

    /// The application phase of `cycle`: [`Endpoint::application`](super::Endpoint::application).
    pub fn application(&mut self, cycle: i64, inputs: Inputs<'_>) -> Step {
        let step = if self.watch.is_some() {
            self.application_watched(cycle, inputs)
        } else {
            self.application_plain(cycle, inputs.image, inputs.fresh)
        };
        if self.values.is_some() {
            self.follow(&step, inputs);
        }
        step
    }

    /// The same with neither watch nor values. A reader without image is none.
    #[inline(always)]
    pub(super) fn application_plain(&mut self, cycle: i64, image: &[u8], fresh: bool) -> Step {
        let readers = [ReaderInput { image, fresh, ..ReaderInput::default() }];
        self.application.cycle(cycle, Input { readers: &readers }, &mut self.output)
    }

    /// Takes the next counter whatever it is: what [`Reading::receive`](super::Reading::receive) says.
    #[cold]
    pub fn forget(&mut self) {
        self.application.forget();
    }

    /// The application phase where a breach may have a say in it.
    fn application_watched(&mut self, cycle: i64, inputs: Inputs<'_>) -> Step {
        let Self { watch: Some(watch), application, output, .. } = self else { return Step::of(cycle) };
        let fresh = inputs.fresh;
        if fresh {
            watch.delivers(inputs.image);
        }
        let good = inputs.signs.is_some_and(|signs| watch.is_good(signs));
        let status = if good { Status::Good } else { Status::Bad };
        let mut reader = ReaderInput { image: inputs.image, fresh, status, age: None };
        let mut withheld = false;
        if let Some(image) = watch.input() {
            reader = ReaderInput { image, fresh: false, status: Status::Bad, age: None };
            withheld = fresh;
        }
        let step = application.cycle(cycle, Input { readers: &[reader] }, output);
        if withheld {
            application.withheld();
        }
        step
    }

    /// Application phases in a row without news.
    #[inline(always)]
    pub fn phases_without_news(&self) -> u32 {
        self.application.phases_without_news()
    }

    /// What there is to be published.
    #[inline(always)]
    pub fn outputs(&self) -> Outputs<'_> {
        let instead = match &self.watch {
            Some(watch) => watch.instead(self.application.role() == Role::Echo),
            None => None,
        };
        Outputs { image: &self.output, counter: self.application.outgoing(), instead }
    }

    /// Whether it wants to know of [publications](Self::published).
    #[inline(always)]
    pub fn is_told_publications(&self) -> bool {
        self.watch.is_some()
    }

    /// A counter was published for the first time, with this time in its message.
    pub fn published(&mut self, counter: u64, ticks: i64) {
        if let Some(watch) = &mut self.watch {
            watch.published(counter, ticks);
        }
    }

    /// Lets the counter of a Source begin with `first` instead of 1: [`Endpoint::count_from`](super::Endpoint::count_from).
    pub fn count_from(&mut self, first: u64) {
        self.application.count_from(first);
    }

    /// What it does.
    pub fn role(&self) -> Role {
        self.application.role()
    }

    /// Where a condition is; `None` for one that is not watched for.
    pub fn breach(&self, condition: Condition) -> Option<BreachState> {
        self.watch.as_ref()?.breach(condition).map(|breach| breach.state())
    }

    /// The counter with which a condition last changed: that of the message that showed it, of a silence the last before
    /// it. 0 when there is none.
    pub fn breach_counter(&self, condition: Condition) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.counter(condition))
    }

    /// Whether a breach has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.is_stopped())
    }
}
