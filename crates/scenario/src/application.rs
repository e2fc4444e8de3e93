//! `application = "image"` of a stream, or `{ writer = …, reader = … }`.

use pubsub::Condition;

use crate::breaches::Breaches;
use crate::diagnostic::Sink;
use crate::model::ApplicationKind;
use crate::node::{Entry, Table};

/// Who makes the values at both ends. What could not be read of the stream is `None`, and not complained about again;
/// so is the answer after a mistake.
pub(crate) fn read(
    table: &Table<'_>,
    variables: Option<u16>,
    breaches: Option<&Breaches>,
    sink: &mut Sink,
) -> Option<[ApplicationKind; 2]> {
    let Some(entry) = table.get("application") else { return Some([ApplicationKind::Counter; 2]) };
    let applications = if entry.is_text() {
        [kind(&entry, sink)?; 2]
    } else {
        let ends = entry.table(sink, "`application`")?;
        ends.only(sink, &["writer", "reader"]);
        let [writer, reader] = ["writer", "reader"]
            .map(|end| ends.get(end).map_or(Some(ApplicationKind::Counter), |entry| kind(&entry, sink)));
        [writer?, reader?]
    };
    if !applications.contains(&ApplicationKind::Image) {
        return Some(applications);
    }
    if variables.is_some_and(|variables| variables < 2) {
        sink.error(
            &entry.span,
            format!("{} has an image, but the only variable is the counter", entry.name()),
            "expected at least 2 variables",
            "write `variables = 2` or more: the first counts messages, the others are the application's",
        );
        return None;
    }
    if breaches.is_some_and(|breaches| breaches.plans[Condition::Inconsistent.index()].is_some()) {
        sink.error(
            &entry.span,
            format!("{} has an image, and `on_breach.inconsistent` watches for variables that differ", entry.name()),
            "expected one of them",
            "remove `inconsistent` from `on_breach`: values of an application differ as they like",
        );
        return None;
    }
    Some(applications)
}

fn kind(entry: &Entry<'_>, sink: &mut Sink) -> Option<ApplicationKind> {
    entry.word(sink, &[("counter", ApplicationKind::Counter), ("image", ApplicationKind::Image)])
}
