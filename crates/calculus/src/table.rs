//! The report as text: the certificate a reader can redo by hand.

use std::fmt::Write;

use crate::exact::{Bound, Number};
use crate::report::{BoundReport, Count, Direction, PortBound, StreamBound};

impl BoundReport {
    /// The report for people: figures, formulas, every port's numbers. Times in µs, rounded up.
    pub fn table(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "Worst-case bounds of scenario \"{}\", model {}", self.scenario, self.model)?;
        for assumption in &self.assumptions {
            writeln!(out, "  - {assumption}")?;
        }
        for stream in &self.streams {
            writeln!(out)?;
            stream.write(out)?;
        }
        Ok(())
    }
}

impl StreamBound {
    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "Stream \"{}\"", self.name)?;
        let mut line = |name: &str, bound: &Bound, words: &str| match bound {
            Bound::At(_) => writeln!(out, "  {name:<28}{:>16}  {words}", bound.to_string()),
            Bound::Unbounded(_) => writeln!(out, "  {name:<28}{bound}"),
        };
        line("one way", &self.one_way, "T3 − T2 at most")?;
        if self.one_way_scheduled != self.one_way {
            line("  scheduled", &self.one_way_scheduled, "T3 − T2 at most, phases known")?;
        }
        line("  at least", &self.one_way_best, "a lone frame")?;
        line("  spacing error", &self.spacing_error, "|T3(k) − T3(k−1) − c| at most")?;
        line("  stack", &self.one_way_stack, "T4 − T1 at most, any phase")?;
        line("  stack, scheduled", &self.one_way_stack_scheduled, "T4 − T1 at most, phases known")?;
        if let Some(trip) = &self.round_trip {
            line("round trip wire", &trip.wire, "T7 − T2 at most, any phase")?;
            line("  at least", &trip.wire_best, "")?;
            line("  scheduled", &trip.wire_scheduled, "T7 − T2 at most, phases known")?;
            line("  scheduled, at least", &trip.wire_scheduled_best, "")?;
            line("round trip stack", &trip.stack, "T8 − T1 at most, any phase")?;
            line("  scheduled", &trip.stack_scheduled, "T8 − T1 at most, phases known")?;
            for (name, count) in [("round trip counter", &trip.counter), ("  at least", &trip.counter_best)] {
                match count {
                    Count::At { cycles, used } => {
                        writeln!(out, "  {name:<28}{:>16}  elapsed, {used} used", format!("{cycles} cycles"))?;
                    }
                    Count::Unbounded { unbounded } => writeln!(out, "  {name:<28}unbounded: {unbounded}")?,
                }
            }
        }
        writeln!(out, "  How:")?;
        for words in &self.certificate {
            writeln!(out, "    {words}")?;
        }
        self.write_ports(out)
    }

    fn write_ports(&self, out: &mut String) -> std::fmt::Result {
        let width = self.ports.iter().map(|port| port.port.chars().count()).max().unwrap_or(0).max(4);
        writeln!(
            out,
            "  {:<width$} way  class  queue   stretch {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} | {:>8} {:>8} {:>8} {:>12} {:>12} {:>12} {:>10} {:>8}",
            "port",
            "delay",
            "(b−L)/R",
            "T",
            "L/C",
            "bridge",
            "cable",
            "L bit",
            "L_max",
            "L_N",
            "b bit",
            "R bit/s",
            "r bit/s",
            "backlog",
            "r/R %"
        )?;
        for port in &self.ports {
            port.write(out, width)?;
        }
        let mut seen: Vec<&str> = Vec::new();
        for service in self.ports.iter().filter_map(|port| port.terms.as_ref()).map(|terms| terms.service.as_str()) {
            if !seen.contains(&service) {
                seen.push(service);
                writeln!(out, "    service: {service}")?;
            }
        }
        Ok(())
    }
}

impl PortBound {
    fn write(&self, out: &mut String, width: usize) -> std::fmt::Result {
        let way = match self.direction {
            Direction::Out => "out",
            Direction::Back => "back",
        };
        write!(out, "  {:<width$} {way:<4} {:>5}  {:<8} ", self.port, self.class, self.queue)?;
        let Some(terms) = &self.terms else {
            return writeln!(out, "{}", self.contribution);
        };
        let micros = |bound: &Bound| bound.to_string().trim_end_matches(" µs").to_owned();
        writeln!(
            out,
            "{:>7} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} | {:>8} {:>8} {:>8} {:>12} {:>12} {:>12} {:>10} {:>8}",
            terms.stretch,
            micros(&self.contribution),
            micros(&terms.burst_delay),
            micros(&terms.service_latency),
            micros(&terms.transmission),
            micros(&terms.bridge_latency),
            micros(&terms.propagation),
            self.frame_bits,
            terms.largest_frame_bits,
            terms.lower_frame_bits,
            terms.burst_bits,
            terms.service_rate,
            terms.arrival_rate,
            Number(terms.backlog_bits.0.ceil()),
            terms.utilisation_percent
        )?;
        Ok(())
    }
}
