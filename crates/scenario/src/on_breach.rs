//! `receive_timeout` and `on_breach = { … }` of a stream.

use pubsub::{Action, BreachRule, Condition};
use units::Nanos;

use crate::breaches::{BreachPlan, Breaches, SILENT_CYCLES, StreamEnd, limits};
use crate::diagnostic::Sink;
use crate::model::FieldEncoding;
use crate::node::{Entry, Table};
use crate::requirement::Limit;

/// So many good cycles in a row lead back to normal, if the file does not say.
const RECOVER: u32 = 3;
/// Longest hook, in words, and longest word in bytes.
const HOOK_WORDS: usize = 64;
const HOOK_BYTES: usize = 4096;

/// What is known of the stream. What could not be read is `None`, and not complained about again.
pub(crate) struct Known<'a> {
    pub(crate) echo: Option<bool>,
    pub(crate) encoding: Option<FieldEncoding>,
    pub(crate) cycle: Option<Nanos>,
    pub(crate) requirement: Option<&'a [Limit]>,
}

/// `Some(None)` when nothing is watched for; `None` after a mistake.
pub(crate) fn read(table: &Table<'_>, known: &Known<'_>, sink: &mut Sink) -> Option<Option<Breaches>> {
    let cycle = known.cycle.unwrap_or(Nanos(1));
    let timeout = table.get("receive_timeout");
    let receive_timeout = match &timeout {
        Some(entry) => entry.nanos(sink, cycle, &(cycle * SILENT_CYCLES).to_string()),
        None => Some(cycle * SILENT_CYCLES),
    };
    let mut breaches =
        Breaches { plans: [const { None }; Condition::COUNT], allowed_missing: 0, receive_timeout: cycle };
    let mut complete = true;
    if let Some(entry) = table.get("on_breach") {
        complete = conditions(&entry, known, &mut breaches, sink).is_some();
    }
    breaches.receive_timeout = receive_timeout?;
    if timeout.is_some() {
        // A time that nobody looks at would say nothing.
        let counted =
            BreachPlan { rule: BreachRule { action: Action::Count, recover: RECOVER }, at: None, hook: Vec::new() };
        breaches.plans[Condition::Silent.index()].get_or_insert(counted);
    }
    let any = breaches.plans.iter().any(Option::is_some);
    complete.then(|| any.then_some(breaches))
}

fn conditions(entry: &Entry<'_>, known: &Known<'_>, breaches: &mut Breaches, sink: &mut Sink) -> Option<()> {
    if entry.is_text() {
        sink.error(
            &entry.span,
            "`on_breach` of [[streams]] is a text",
            "expected conditions in braces",
            "write for example `on_breach = { missed = \"count\", silent = \"hold\" }`",
        );
        return None;
    }
    let table = entry.table(sink, "`on_breach`")?;
    table.only(sink, &Condition::ALL.map(Condition::key));
    let mut complete = table.keys().all(|key| Condition::ALL.iter().any(|condition| condition.key() == key.value));
    for condition in Condition::ALL {
        let Some(entry) = table.get(condition.key()) else { continue };
        let plan = plan(condition, &entry, known, &mut breaches.allowed_missing, sink);
        complete &= plan.is_some();
        breaches.plans[condition.index()] = plan;
    }
    complete.then_some(())
}

/// Reads `"hold"` or `{ action = "hold", … }`.
fn plan(
    condition: Condition,
    entry: &Entry<'_>,
    known: &Known<'_>,
    allowed_missing: &mut u64,
    sink: &mut Sink,
) -> Option<BreachPlan> {
    let plan = if entry.is_text() {
        let action = action(condition, entry, None, sink);
        BreachPlan { rule: BreachRule { action: action?, recover: RECOVER }, at: None, hook: Vec::new() }
    } else {
        detailed(condition, entry, allowed_missing, sink)?
    };
    fits(condition, entry, &plan, known, sink).then_some(plan)
}

fn detailed(condition: Condition, entry: &Entry<'_>, allowed_missing: &mut u64, sink: &mut Sink) -> Option<BreachPlan> {
    let what = format!("`on_breach.{}`", condition.key());
    let table = entry.table(sink, &what)?;
    let mut keys = vec!["action", "value", "recover", "at", "hook"];
    if condition == Condition::Missed {
        keys.push("more_than");
    }
    let misplaced = (condition == Condition::Silent).then(|| table.get("after")).flatten();
    if let Some(entry) = &misplaced {
        keys.push("after");
        sink.error(
            &entry.span,
            "`after` of `on_breach.silent` is not known",
            "expected `receive_timeout` beside `on_breach`",
            "write `receive_timeout = \"10ms\"` into [[streams]]: the MessageReceiveTimeout is of the stream",
        );
    }
    table.only(sink, &keys);
    let known = table.keys().all(|key| keys.contains(&key.value)) && misplaced.is_none();
    let action = match table.get("action") {
        Some(entry) => action(condition, &entry, Some(&table), sink),
        None => no_value(&table, Action::Count, sink),
    };
    let recover = table.get("recover").map_or(Some(RECOVER), |entry| entry.integer(sink, 1..=1_000_000));
    let ends = [("writer", Some(StreamEnd::Writer)), ("reader", Some(StreamEnd::Reader)), ("both", None)];
    let at = table.get("at").map_or(Some(None), |entry| entry.word(sink, &ends));
    let hook = table.get("hook").map_or(Some(Vec::new()), |entry| hook(&entry, sink));
    let more_than = match table.get("more_than").filter(|_| condition == Condition::Missed) {
        Some(entry) => entry.integer(sink, 0..=u32::MAX).map(u64::from),
        None => Some(*allowed_missing),
    };
    *allowed_missing = more_than?;
    let plan = BreachPlan { rule: BreachRule { action: action?, recover: recover? }, at: at?, hook: hook? };
    known.then_some(plan)
}

/// The action that a word names, with the value that it needs.
fn action(condition: Condition, entry: &Entry<'_>, table: Option<&Table<'_>>, sink: &mut Sink) -> Option<Action> {
    if entry.is_text() && entry.text(sink, "count")?.value == "hook" {
        sink.error(
            &entry.span,
            "a hook goes along with an action, it is none".to_owned(),
            "expected an action, or none",
            format!("write `{} = {{ hook = [\"/path/to/program\"] }}`", condition.key()),
        );
        return None;
    }
    let all = [Action::Count, Action::Stop, Action::Hold, Action::Override(0), Action::Safe(0)];
    let action = entry.word(sink, &all.map(|action| (action.key(), action)))?;
    if !matches!(action, Action::Override(_) | Action::Safe(_)) {
        return match table {
            Some(table) => no_value(table, action, sink),
            None => Some(action),
        };
    }
    let Some(value) = table.and_then(|table| table.get("value")) else {
        sink.error(
            &entry.span,
            format!("{} is \"{}\" without a `value`", entry.name(), action.key()),
            "needs `value`",
            format!("write for example `{} = {{ action = \"{}\", value = 0 }}`", condition.key(), action.key()),
        );
        return None;
    };
    let value = value.integer(sink, 0..=i64::MAX)?.unsigned_abs();
    Some(if let Action::Safe(_) = action { Action::Safe(value) } else { Action::Override(value) })
}

/// A value that nobody would use is a mistake.
fn no_value(table: &Table<'_>, action: Action, sink: &mut Sink) -> Option<Action> {
    let Some(entry) = table.get("value") else { return Some(action) };
    sink.error(
        &entry.span,
        format!("{} is given, but the action is \"{}\"", entry.name(), action.key()),
        "expected no `value`",
        "only \"override\" and \"safe\" take one: remove it, or write for example `action = \"safe\"`",
    );
    None
}

/// A program and its arguments.
fn hook(entry: &Entry<'_>, sink: &mut Sink) -> Option<Vec<String>> {
    let entries = if entry.is_text() { vec![entry.clone()] } else { entry.list(sink, "a list of texts")? };
    let example = "/usr/local/bin/alarm";
    let words: Option<Vec<&str>> = entries.iter().map(|word| word.text(sink, example).map(|at| at.value)).collect();
    let words = words?;
    let good = words.first().is_some_and(|program| !program.trim().is_empty())
        && words.len() <= HOOK_WORDS
        && words.iter().all(|word| word.len() <= HOOK_BYTES && !word.contains('\0'));
    if !good {
        sink.error(
            &entry.span,
            format!("{} names no program", entry.name()),
            format!("expected a program and up to {} arguments", HOOK_WORDS - 1),
            format!("write for example `hook = [\"{example}\", \"--loud\"]`; no shell reads it"),
        );
        return None;
    }
    Some(words.into_iter().map(str::to_owned).collect())
}

/// Whether an end is there that sees the condition and can do what is asked.
fn fits(condition: Condition, entry: &Entry<'_>, plan: &BreachPlan, known: &Known<'_>, sink: &mut Sink) -> bool {
    let mut error = |message: String, expected: &str, help: &str| {
        sink.error(&entry.span, message, expected.to_owned(), help.to_owned());
        false
    };
    let name = format!("`on_breach.{}`", condition.key());
    let Some(echo) = known.echo else { return true };
    if !echo && plan.at == Some(StreamEnd::Writer) {
        return error(
            format!("{name} is for the writer, which reads nothing of this stream"),
            "expected an end that reads",
            "write `echo = true`, so that the reader answers, or `at = \"reader\"`",
        );
    }
    if !echo && matches!(plan.rule.action, Action::Safe(_)) {
        return error(
            format!("{name} asks for safe outputs, but the end that reads publishes nothing in this stream"),
            "expected an end that reads and publishes",
            "write `echo = true`, or take `action = \"override\"` for what the reader goes on with",
        );
    }
    let (Some(encoding), Some(requirement)) = (known.encoding, known.requirement) else { return true };
    let comparable =
        |end| plan.at.is_none_or(|at| at == end) && limits(requirement, echo, encoding, end) != (None, None);
    if condition == Condition::Late && ![StreamEnd::Writer, StreamEnd::Reader].into_iter().any(comparable) {
        let reader = encoding == FieldEncoding::Variant;
        let quantities = match (echo, plan.at) {
            (true, Some(StreamEnd::Writer)) => "`round_trip_stack` or `round_trip_counter`",
            (true, None) if reader => "`round_trip_stack`, `round_trip_counter` or `one_way_stack`",
            (true, None) => "`round_trip_stack` or `round_trip_counter`",
            _ => "`one_way_stack`",
        };
        let needs_stamp = quantities == "`one_way_stack`" && !reader;
        return error(
            format!("{name} has nothing to compare: an end sees neither limit of `requirement` in its loop"),
            &format!("needs a limit of {quantities}"),
            if needs_stamp {
                "messages of `encoding = \"raw\"` carry no Timestamp, so their reader cannot tell: write \
                 `encoding = \"variant\"`"
            } else {
                "add one to `requirement`, for example `round_trip_stack = \"4ms\"`; times of ports, as `one_way` and \
                 `round_trip_wire`, are known only afterwards"
            },
        );
    }
    true
}
