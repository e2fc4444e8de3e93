//! The result of a watch, for people.

use std::io::Write as _;

use measure::{Figures, PtpEvent, PtpFile};
use units::Nanos;

/// An event as it happens; a reader that has gone does not end a watch.
pub(super) fn event(event: &PtpEvent, quiet: bool) {
    if !quiet {
        _ = writeln!(std::io::stdout(), "{:>10.3} s  {}", event.at_ns as f64 / 1e9, event.text);
    }
}

/// The result.
pub(super) fn result(file: &PtpFile) {
    println!("watched for {:.1} s, ended by {}; {} stamps", file.lasted_ns as f64 / 1e9, file.ended, file.stamps);
    if let Some(grandmaster) = &file.grandmaster {
        let own = if file.clock.as_ref() == Some(grandmaster) { " (this host)" } else { "" };
        println!("grandmaster {grandmaster}{own}");
    }
    for port in &file.ports {
        let interface = port.interface.as_deref().unwrap_or("?");
        println!("port {} ({interface}): {}, {} stamps", port.number, port.state, port.stamps);
    }
    let seconds = |ns: Option<i64>| ns.map_or_else(|| "not seen".into(), |ns| format!("{:.3} s", ns as f64 / 1e9));
    let convergence = &file.convergence;
    println!(
        "convergence since {}: best master {}, from there to the servo's lock {}",
        convergence.from,
        seconds(convergence.best_master_ns),
        seconds(convergence.servo_lock_ns)
    );
    figures(file);
    let rows = &file.rows;
    if rows.dropped > 0 {
        println!("samples: {} in files, {} older ones dropped", rows.count, rows.dropped);
    }
    file.notes.iter().for_each(|note| println!("note: {note}"));
    match (&file.clock_error, &file.clock_error_unknown) {
        (Some(error), _) => println!("{}", error.words()),
        (None, Some(why)) => println!("clock error: not known: {why}"),
        (None, None) => {}
    }
}

/// The table; nothing where nothing was measured.
fn figures(file: &PtpFile) {
    let own = [
        ("offset since the lock", &file.offset),
        ("offset, all", &file.offset_all),
        ("offset, rms of eight", &file.offset_rms8),
        ("path delay", &file.path_delay),
    ];
    let mut rows: Vec<(String, &Figures)> =
        own.into_iter().filter_map(|(name, figures)| Some((name.to_owned(), figures.as_ref()?))).collect();
    for system in &file.system {
        let clock = &system.clock;
        rows.extend(system.offset.iter().map(|figures| (format!("phc2sys {clock}"), figures)));
        rows.extend(system.read_delay.iter().map(|figures| (format!("phc2sys {clock}, reading"), figures)));
    }
    if !rows.is_empty() {
        println!("{:44}{:>12}{:>12}{:>12}{:>12}{:>10}", "ns", "min", "mean", "rms", "max", "count");
    }
    for (name, f) in rows {
        println!("{name:44}{:>12}{:>12.1}{:>12.1}{:>12}{:>10}", f.min_ns, f.mean_ns, f.rms_ns, f.max_ns, f.count);
    }
}

/// The clock error of ends together.
pub(super) struct Together {
    /// None where one is unknown.
    pub(super) epsilon_ns: Option<i64>,
    /// In words, with the option that takes it.
    pub(super) words: String,
}

/// Two clocks are apart by at most what both are from their grandmaster: the largest two of all ends.
pub(super) fn together(ends: &[(String, PtpFile)]) -> Together {
    let mut lines = Vec::new();
    for (name, file) in ends {
        lines.push(match (&file.clock_error, &file.clock_error_unknown) {
            (Some(error), _) => format!("{name}: {}", error.words()),
            (None, why) => format!("{name}: clock error not known: {}", why.as_deref().unwrap_or("it is not told")),
        });
    }
    let epsilon_ns = measure::clock_error_of_ends(ends.iter().map(|(_, file)| file));
    lines.push(match epsilon_ns {
        Some(ns) if ends.len() > 1 => {
            format!("any two of these ends are apart by at most {}: downbeat join … --clock-error {ns}ns", Nanos(ns))
        }
        Some(ns) => format!(
            "against the grandmaster's own clock: downbeat join … --clock-error {ns}ns; between two hosts give the folders of both"
        ),
        None => "no clock error can be stated for these ends together".into(),
    });
    Together { epsilon_ns, words: lines.join("\n") }
}
