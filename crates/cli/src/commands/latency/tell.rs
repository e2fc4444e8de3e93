//! The result in words and tables.

use measure::{Dist, LatencyFigures, LatencyFile, LoadReport, Method};
use units::Nanos;

/// What was refused, to standard error.
pub(super) fn notes(result: &LatencyFile) {
    let mut refused: Vec<(&str, usize)> = Vec::new();
    let machine = result.machine.get("granted").and_then(|lines| lines.as_array()).into_iter().flatten();
    let lines = machine.filter_map(|line| line.as_str());
    let lines = lines.chain(result.threads.iter().flat_map(|thread| thread.granted.iter().map(String::as_str)));
    for line in lines.filter(|line| !line.ends_with("granted")) {
        match refused.iter_mut().find(|(other, _)| *other == line) {
            Some((_, times)) => *times += 1,
            None => refused.push((line, 1)),
        }
    }
    for (line, times) in refused {
        let threads = if times > 1 { format!(" ({times} threads)") } else { String::new() };
        eprintln!("note: {line}{threads}");
    }
    for note in result.load.iter().flat_map(|load| &load.notes) {
        eprintln!("note: load: {note}");
    }
    if result.ended == "interrupted" {
        eprintln!("note: stopped by the user; what was measured until then follows");
    }
}

/// A line a thread, and one for all.
pub(super) fn table(result: &LatencyFile) {
    let what = match result.method {
        Method::Sleep => "wake-up latency",
        Method::Hybrid => "lateness after sleeping and spinning",
        Method::Spin => "longest gap between two readings of the clock, once an interval",
    };
    let priority = result.priority.map_or_else(String::new, |priority| format!(" {priority}"));
    let interval = result.threads.first().map_or(Nanos::ZERO, |thread| Nanos(thread.interval_ns));
    println!("{what} in µs: {}{priority}, every {interval}, clock {}", result.policy, result.clock);
    println!(
        "{:>4}{:>10}{:>7}{:>7}{:>7}{:>7}{:>7}{:>8}{:>9}{:>10}",
        "cpu", "count", "min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"
    );
    for thread in &result.threads {
        row(&thread.cpu.to_string(), &thread.figures);
    }
    if result.threads.len() > 1 {
        row("all", &result.all);
    }
    let LatencyFigures { missed, overflow, stolen_ns, .. } = &result.all;
    if *missed > 0 {
        println!("{missed} instants passed while a thread was still late for the one before");
    }
    if *overflow > 0 {
        println!("{overflow} were too long for the histogram");
    }
    if let Some(stolen) = stolen_ns {
        let whole = result.lasted_ns.max(1) as f64 * result.threads.len() as f64;
        let percent = *stolen as f64 * 100.0 / whole;
        println!("time in gaps of more than 1 µs: {} in all, {percent:.3} % of the time", Nanos(*stolen));
    }
}

fn row(name: &str, figures: &LatencyFigures) {
    let Some(Dist { count, min, mean, p50, p90, p99, p99_9, p99_99, max }) = &figures.distribution else {
        println!("{name:>4}{:>10}", 0);
        return;
    };
    let us = |ns: &i64| Nanos(*ns).as_micros_f64();
    println!(
        "{name:>4}{count:>10}{:>7.1}{:>7.1}{:>7.1}{:>7.1}{:>7.1}{:>8.1}{:>9.1}{:>10.1}",
        us(min),
        mean / 1e3,
        us(p50),
        us(p90),
        us(p99),
        us(p99_9),
        us(p99_99),
        us(max)
    );
}

/// Whole microseconds below `limit`, a line each and a column a thread, as `cyclictest -h` prints them.
pub(super) fn columns(result: &LatencyFile, limit: usize) {
    let mut lines = vec![vec![0; result.threads.len()]; limit];
    let mut beyond = vec![0; result.threads.len()];
    for (column, thread) in result.threads.iter().enumerate() {
        for &(us, count) in &thread.figures.histogram {
            match lines.get_mut(us as usize) {
                Some(line) => line[column] += count,
                None => beyond[column] += count,
            }
        }
    }
    let joined = |counts: &[u64], width: usize| {
        counts.iter().map(|count| format!("{count:0width$}")).collect::<Vec<_>>().join("\t")
    };
    println!("# Histogram");
    for (us, counts) in lines.iter().enumerate().filter(|(_, counts)| counts.iter().any(|&count| count > 0)) {
        println!("{us:06} {}", joined(counts, 6));
    }
    let figure = |of: fn(&Dist) -> i64| {
        let dists = result.threads.iter().map(|thread| thread.figures.distribution.as_ref());
        dists.map(|dist| dist.map_or(0, of).unsigned_abs()).collect::<Vec<_>>()
    };
    println!("# Total: {}", joined(&figure(|dist| dist.count as i64), 9));
    println!("# Min Latencies: {}", joined(&figure(|dist| dist.min / 1_000), 5));
    println!("# Avg Latencies: {}", joined(&figure(|dist| dist.mean as i64 / 1_000), 5));
    println!("# Max Latencies: {}", joined(&figure(|dist| dist.max / 1_000), 5));
    println!("# Histogram Overflows: {}", joined(&beyond, 5));
}

/// What a load reached.
pub(crate) fn load(load: &LoadReport) {
    let busy: Vec<String> = load.busy_percent.iter().map(|(cpu, busy)| format!("cpu {cpu} {busy:.1} %")).collect();
    println!("load {}: busy over {:.1} s, the measurement included: {}", load.profile, load.seconds, busy.join(", "));
    for work in &load.work {
        println!("  {}: {} ({:.0} a second)", work.what, work.count, work.per_second);
    }
}

/// Outliers printed; the file has all that were kept.
const PRINTED: usize = 5;

/// How many outliers, and the first of them.
pub(super) fn outliers(result: &LatencyFile) {
    let count: u64 = result.threads.iter().map(|thread| thread.outliers).sum();
    let Some(above) = result.threads.first().map(|thread| Nanos(thread.outlier_above_ns)).filter(|_| count > 0) else {
        return;
    };
    println!("{count} above {above}, the first:");
    let kept =
        result.threads.iter().flat_map(|thread| thread.first_outliers.iter().map(|outlier| (outlier, thread.cpu)));
    let mut kept: Vec<_> = kept.collect();
    kept.sort_by_key(|(outlier, _)| outlier.at_ns);
    for (outlier, cpu) in kept.iter().take(PRINTED) {
        let (seconds, rest) = (outlier.at_ns.div_euclid(1_000_000_000), outlier.at_ns.rem_euclid(1_000_000_000));
        println!("  TAI {seconds}.{rest:09}  cpu {cpu}  {:.1} µs", Nanos(outlier.late_ns).as_micros_f64());
    }
}

/// The suggestion for ETF and where it comes from.
pub(super) fn delta(result: &LatencyFile) {
    if let (Some(delta), Some(dist)) = (result.suggested_etf_delta_ns, &result.all.distribution) {
        println!(
            "suggested delta for ETF: {} µs (largest wake-up latency seen {:.1} µs;\n  half as much again, at least 20 µs \
             more, rounded up to 10 µs)",
            delta / 1_000,
            Nanos(dist.max).as_micros_f64()
        );
    }
}
