//! Queueing disciplines as a plan says them and as `tc -j` shows them.

use serde_json::{Map, Value};

/// A queueing discipline in a plan: the words of `tc qdisc replace`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Planned<'a> {
    /// `root`, `clsact`, or the parent's name like `100:2`.
    pub(super) parent: &'a str,
    /// Like `100:`; none for clsact.
    handle: Option<&'a str>,
    pub(super) kind: &'a str,
    /// Bytes that the kernel is to count of each frame beside its own, `stab overhead`.
    pub(super) overhead: Option<&'a str>,
    /// The words behind the kind.
    options: &'a [String],
}

impl<'a> Planned<'a> {
    /// Reads `qdisc replace dev D root handle H: [stab …] KIND …`; `None` for other words.
    pub(super) fn read(words: &'a [String]) -> Option<Self> {
        let [object, verb, dev, _, rest @ ..] = words else { return None };
        if (object.as_str(), dev.as_str()) != ("qdisc", "dev") || !["replace", "add"].contains(&verb.as_str()) {
            return None;
        }
        let (mut parent, mut handle, mut overhead, mut at) = ("root", None, None, 0);
        loop {
            let value = rest.get(at + 1).map(String::as_str);
            match rest.get(at)?.as_str() {
                "root" => at += 1,
                "parent" => (parent, at) = (value?, at + 2),
                "handle" => (handle, at) = (Some(value?), at + 2),
                // Pairs of words until the kind.
                "stab" => {
                    at += 1;
                    while ["overhead", "linklayer", "mtu", "tsize", "mpu", "cell_log"].contains(&rest.get(at)?.as_str())
                    {
                        if rest[at] == "overhead" {
                            overhead = rest.get(at + 1).map(String::as_str);
                        }
                        at += 2;
                    }
                }
                "clsact" => {
                    return Some(Self { parent: "clsact", handle: None, kind: "clsact", overhead, options: &[] });
                }
                kind => return Some(Self { parent, handle, kind, overhead, options: rest.get(at + 1..)? }),
            }
        }
    }

    /// Which of those that are shown stands in its place.
    pub(super) fn find<'v>(&self, shown: &'v [Value]) -> Option<&'v Value> {
        shown.iter().find(|entry| match self.parent {
            "root" => entry["root"] == true,
            "clsact" => entry["kind"] == "clsact",
            parent => entry["parent"] == parent,
        })
    }

    /// In what it differs from what is shown in its place; `None` when it is the same.
    pub(super) fn difference(&self, shown: &Value) -> Option<String> {
        let differs = |what: &str, planned: &dyn std::fmt::Display, now: &Value| {
            Some(format!("{what} is {}, planned {planned}", plain(now)))
        };
        if shown["kind"] != self.kind {
            return differs("it", &self.kind, &shown["kind"]);
        }
        if let Some(handle) = self.handle
            && shown["handle"] != handle
        {
            return differs("handle", &handle, &shown["handle"]);
        }
        let options = &shown["options"];
        match self.kind {
            "cbs" => self.numbers(&["idleslope", "sendslope", "hicredit", "locredit", "offload"], options),
            "etf" => self.etf(options),
            "pfifo" => self.numbers(&["limit"], options),
            "mqprio" => self.classes(options),
            "taprio" => self.classes(options).or_else(|| self.schedule(options)),
            _ => None,
        }
    }

    /// The word behind a key.
    fn value(&self, key: &str) -> Option<&'a str> {
        let place = self.options.iter().position(|word| word == key)?;
        self.options.get(place + 1).map(String::as_str)
    }

    /// The numbers behind a key, until the next word that is none.
    fn list(&self, key: &str) -> Vec<&'a str> {
        let behind = self.options.iter().skip_while(|word| *word != key).skip(1).map(String::as_str);
        behind.take_while(|word| word.starts_with(|c: char| c.is_ascii_digit())).collect()
    }

    fn numbers(&self, keys: &[&str], options: &Value) -> Option<String> {
        keys.iter().find_map(|key| {
            let planned: i64 = self.value(key)?.parse().ok()?;
            let now = &options[*key];
            (now.as_i64() != Some(planned)).then(|| format!("{key} is {}, planned {planned}", plain(now)))
        })
    }

    fn etf(&self, options: &Value) -> Option<String> {
        let flag = |key: &&str| {
            let planned = if self.options.iter().any(|word| word == *key) { "on" } else { "off" };
            (options[*key] != planned).then(|| format!("{key} is {}, planned {planned}", plain(&options[*key])))
        };
        let clock = || clock(self.value("clockid"), options);
        self.numbers(&["delta"], options)
            .or_else(clock)
            .or_else(|| ["offload", "deadline_mode", "skip_sock_check"].iter().find_map(flag))
    }

    /// Class map and queues, which mqprio and taprio have alike. `tc` shows queues as pairs of the first and the last, or
    /// as offset and count.
    fn classes(&self, options: &Value) -> Option<String> {
        let planned: Option<i64> = self.value("num_tc").and_then(|count| count.parse().ok());
        if options["tc"].as_i64() != planned {
            return Some(format!("it has {} classes, planned {}", plain(&options["tc"]), planned.unwrap_or(0)));
        }
        let numbers = |words: &[&str]| words.iter().filter_map(|word| word.parse::<u64>().ok()).collect::<Vec<_>>();
        let map = numbers(&self.list("map"));
        let now: Vec<u64> = options["map"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        if now != map {
            return Some(format!("map is {now:?}, planned {map:?}"));
        }
        let queues: Vec<(u64, u64)> = self
            .list("queues")
            .into_iter()
            .filter_map(|word| {
                let (count, offset) = word.split_once('@')?;
                Some((offset.parse().ok()?, count.parse().ok()?))
            })
            .collect();
        let shown = options["queues"].as_array().into_iter().flatten().filter_map(|queue| match queue.as_array() {
            Some(ends) => {
                let (first, last) = (ends.first()?.as_u64()?, ends.get(1)?.as_u64()?);
                Some((first, last.checked_sub(first)? + 1))
            }
            None => Some((queue["offset"].as_u64()?, queue["count"].as_u64()?)),
        });
        let now: Vec<_> = shown.collect();
        (now != queues).then(|| format!("queues are {now:?} (offset, count), planned {queues:?}"))
    }

    /// The schedule.
    fn schedule(&self, options: &Value) -> Option<String> {
        let flags = number(self.value("flags").unwrap_or("0"));
        let now = options["flags"].as_str().map_or(Some(0), number);
        if now != flags {
            return Some(format!(
                "flags are {}, planned {}",
                plain(&options["flags"]),
                self.value("flags").unwrap_or("0")
            ));
        }
        // With full offload there is none.
        if flags != Some(2)
            && let Some(difference) = clock(self.value("clockid"), options)
        {
            return Some(difference);
        }
        if let Some(difference) = self.numbers(&["txtime-delay"], &renamed(options, "txtime_delay", "txtime-delay")) {
            return Some(difference);
        }
        // What waits for its base-time takes the place of what runs.
        self.gates(options.get("pending").unwrap_or(options))
    }

    fn gates(&self, shown: &Value) -> Option<String> {
        for (word, key) in [("base-time", "base_time"), ("cycle-time", "cycle_time")] {
            if let Some(difference) = self.numbers(&[word], &renamed(shown, key, word)) {
                return Some(difference);
            }
        }
        // A plan never has one: software gates do nothing with it, a network card may.
        if let Some(extension) = shown["cycle_time_extension"].as_i64().filter(|extension| *extension != 0) {
            return Some(format!("cycle-time-extension is {extension}, planned none"));
        }
        let words = |at: usize| self.options.get(at).map_or("", String::as_str);
        let entries = (0..self.options.len()).filter(|at| words(*at) == "sched-entry");
        let planned: Vec<_> = entries.map(|at| (gates(words(at + 2)), number(words(at + 3)))).collect();
        let entries = shown["schedule"].as_array().into_iter().flatten();
        let now: Vec<_> =
            entries.map(|entry| (entry["gatemask"].as_str().and_then(gates), entry["interval"].as_i64())).collect();
        if now == planned {
            return None;
        }
        let place = now.iter().zip(&planned).position(|(now, planned)| now != planned);
        Some(match place {
            Some(place) => format!("entry {place} of the schedule is another"),
            None => format!("the schedule has {} entries, planned {}", now.len(), planned.len()),
        })
    }
}

/// A mask of gates: hexadecimal, with or without 0x.
fn gates(text: &str) -> Option<i64> {
    i64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `CLOCK_TAI` is shown as `TAI`.
fn clock(planned: Option<&str>, options: &Value) -> Option<String> {
    let planned = planned?;
    let now = &options["clockid"];
    let same = now.as_str().is_some_and(|now| now == planned.trim_start_matches("CLOCK_"));
    (!same).then(|| format!("clockid is {}, planned {planned}", plain(now)))
}

/// An object with one more name for a member.
fn renamed(object: &Value, from: &str, to: &str) -> Value {
    let mut map: Map<String, Value> = Map::new();
    map.insert(to.to_owned(), object[from].clone());
    Value::Object(map)
}

/// A value without quotation marks.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "not told".to_owned(),
        other => other.to_string(),
    }
}

/// The `stab overhead` of a root discipline in what `tc -d qdisc show` prints for people: as JSON it is not told. None when the
/// root is not told; 0 when it has none.
pub(super) fn root_overhead(shown: &str) -> Option<u32> {
    let mut lines = shown.lines().skip_while(|line| !(line.starts_with("qdisc ") && line.contains(" root ")));
    lines.next()?;
    let words = lines.take_while(|line| !line.starts_with("qdisc ")).flat_map(str::split_whitespace);
    let behind = words.skip_while(|word| *word != "overhead").nth(1);
    Some(behind.map_or(Ok(0), str::parse).unwrap_or(0))
}

/// Reads what `tc -j qdisc show` prints; a schedule that waits for its base-time is the member `pending`.
pub(super) fn parse(text: &str) -> Result<Vec<Value>, serde_json::Error> {
    let text = text.trim();
    if text.is_empty() { Ok(Vec::new()) } else { serde_json::from_str(&tsn::named_json(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    const MAP: &str = "num_tc 4 map 3 3 1 0 3 3 3 2 3 3 3 3 3 3 3 3 queues 1@0 1@1 1@2 1@3";
    const CLASSES: &str = r#""tc":4,"map":[3,3,1,0,3,3,3,2,3,3,3,3,3,3,3,3]"#;

    /// In what a command differs from the only discipline that is shown.
    fn difference(line: &str, shown: &str) -> Option<String> {
        let words = words(line);
        let planned = Planned::read(&words).expect("a command of tc qdisc");
        let shown = parse(shown).expect("what tc shows");
        planned.difference(planned.find(&shown).expect("one in its place"))
    }

    #[track_caller]
    fn expect(line: &str, shown: &str, told: &str) {
        assert_eq!(difference(line, shown).as_deref(), Some(told));
    }

    #[test]
    fn a_plain_queue_is_read_back() {
        let line = "qdisc replace dev va parent 100:2 handle 102: pfifo limit 1000";
        let shown = r#"[{"kind":"pfifo","handle":"102:","parent":"100:2","options":{"limit":1000}}]"#;
        assert_eq!(difference(line, shown), None);
        expect(line, &shown.replace("1000", "50"), "limit is 50, planned 1000");
        expect(line, &shown.replace("pfifo", "pfifo_fast"), "it is pfifo_fast, planned pfifo");
    }

    #[test]
    fn a_shaper_is_read_back() {
        let line = "qdisc replace dev va parent 100:1 handle 101: cbs idleslope 98688 sendslope -901312 hicredit 153 locredit -1389 offload 0";
        let shown = r#"[{"kind":"mqprio","handle":"100:","root":true},{"kind":"cbs","handle":"101:","parent":"100:1","options":
            {"hicredit":153,"locredit":-1389,"sendslope":-901312,"idleslope":98688,"offload":0}}]"#;
        assert_eq!(difference(line, shown), None);
        expect(line, &shown.replace("98688", "98690"), "idleslope is 98690, planned 98688");
        expect(line, &shown.replace("\"cbs\"", "\"pfifo\""), "it is pfifo, planned cbs");
        expect(line, &shown.replace("101:", "7:"), "handle is 7:, planned 101:");
    }

    #[test]
    fn launch_times_are_read_back() {
        let line = "qdisc replace dev va root handle 100: etf clockid CLOCK_TAI delta 200000 skip_sock_check";
        let shown = r#"[{"kind":"etf","handle":"100:","root":true,"options":{"clockid":"TAI","delta":200000,"offload":"off",
            "deadline_mode":"off","skip_sock_check":"on"}}]"#;
        assert_eq!(difference(line, shown), None);
        expect(line, &shown.replace("\"on\"", "\"off\""), "skip_sock_check is off, planned on");
        expect(line, &shown.replace("\"offload\":\"off\"", "\"offload\":\"on\""), "offload is on, planned off");
        expect(line, &shown.replace("TAI", "REALTIME"), "clockid is REALTIME, planned CLOCK_TAI");
        expect(line, &shown.replace("200000", "2"), "delta is 2, planned 200000");
    }

    #[test]
    fn classes_are_read_back() {
        let line = format!("qdisc replace dev va root handle 100: mqprio {MAP} hw 0");
        let shown = format!(
            r#"[{{"kind":"mqprio","handle":"100:","root":true,"options":{{{CLASSES},"queues":[[0,0],[1,1],[2,2],[3,3]],
            "mode":"dcb","shaper":"dcb"}}}}]"#
        );
        assert_eq!(difference(&line, &shown), None);
        expect(
            &line,
            &shown.replace("[1,1]", "[1,2]"),
            "queues are [(0, 1), (1, 2), (2, 1), (3, 1)] (offset, count), planned [(0, 1), (1, 1), (2, 1), (3, 1)]",
        );
        assert!(difference(&line, &shown.replace("[3,3,1", "[3,3,0")).unwrap().starts_with("map is [3, 3, 0"));
        expect(&line, &shown.replace("\"tc\":4", "\"tc\":3"), "it has 3 classes, planned 4");
    }

    const GATES: &str = r#"{"index":0,"cmd":"S","gatemask":"0x1","interval":50000},{"index":1,"cmd":"S","gatemask":"0","interval":200000}"#;

    fn taprio(more: &str) -> String {
        format!(
            "qdisc replace dev va root handle 100: stab overhead 24 taprio {MAP} base-time 0 sched-entry S 01 50000 \
             sched-entry S 00 200000 cycle-time 250000 {more}"
        )
    }

    fn shown(more: &str, times: &str) -> String {
        format!(
            r#"[{{"kind":"taprio","handle":"100:","root":true,"options":{{{CLASSES},"queues":[{{"offset":0,"count":1}},
            {{"offset":1,"count":1}},{{"offset":2,"count":1}},{{"offset":3,"count":1}}],{more}{times}}}}}]"#
        )
    }

    #[test]
    fn schedules_are_read_back() {
        let line = taprio("clockid CLOCK_TAI");
        let times = format!(r#""base_time":0,"cycle_time":250000,"cycle_time_extension":0,"schedule":[{GATES}]"#);
        let now = shown(r#""clockid":"TAI","#, &times);
        assert_eq!(difference(&line, &now), None);
        expect(&line, &now.replace("\"interval\":50000", "\"interval\":60000"), "entry 0 of the schedule is another");
        expect(
            &line,
            &now.replace("\"cycle_time\":250000", "\"cycle_time\":260000"),
            "cycle-time is 260000, planned 250000",
        );
        expect(&line, &now.replace("\"base_time\":0", "\"base_time\":5"), "base-time is 5, planned 0");
        let extended = now.replace("extension\":0", "extension\":100000");
        expect(&line, &extended, "cycle-time-extension is 100000, planned none");
        let assist = taprio("flags 0x1 txtime-delay 300000 clockid CLOCK_TAI");
        expect(&assist, &now, "flags are not told, planned 0x1");
        let now = shown(r#""clockid":"TAI","flags":"0x1","txtime_delay":300000,"#, &times);
        assert_eq!(difference(&assist, &now), None);
        expect(&assist, &now.replace("300000", "1"), "txtime-delay is 1, planned 300000");
        let now = shown(r#""clockid":"invalid","flags":"0x2","#, &times);
        assert_eq!(difference(&taprio("flags 0x2"), &now), None);
    }

    #[test]
    fn a_schedule_that_waits_is_read_though_it_is_not_json() {
        let line = taprio("clockid CLOCK_TAI");
        let pending = format!(r#"{{"base_time":0,"cycle_time":250000,"cycle_time_extension":0,"schedule":[{GATES}]}}"#);
        // Beside one that runs, as iproute2 6.1 prints it, and alone.
        let runs = r#""base_time":7,"cycle_time":9,"cycle_time_extension":0,"schedule":[]"#;
        for times in [format!("{runs},{pending}"), format!(r#""flags":"0x0",{pending}"#)] {
            let now = shown(r#""clockid":"TAI","#, &times);
            assert!(serde_json::from_str::<Value>(&now).is_err());
            assert_eq!(difference(&line, &now), None);
            expect(&line, &now.replace("\"base_time\":0", "\"base_time\":5"), "base-time is 5, planned 0");
        }
        // What runs is as planned, but not for long.
        let runs = format!(r#""base_time":0,"cycle_time":250000,"cycle_time_extension":0,"schedule":[{GATES}]"#);
        let other = pending.replace("\"base_time\":0", "\"base_time\":5");
        let now = shown(r#""clockid":"TAI","#, &format!("{runs},{other}"));
        expect(&line, &now, "base-time is 5, planned 0");
        parse("[{").unwrap_err();
        assert_eq!(parse("").unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn what_is_counted_of_a_frame_is_read_back() {
        let words = words(&taprio("clockid CLOCK_TAI"));
        assert_eq!(Planned::read(&words).unwrap().overhead, Some("24"));
        let shown = "qdisc taprio 100: root refcnt 5 tc 2 map 0\nclockid TAI\tbase-time 0\n\n overhead 24 \nqdisc cbs 101: parent \
                     100:1 idleslope 7\n overhead 50 \n";
        assert_eq!(root_overhead(shown), Some(24));
        assert_eq!(root_overhead(&shown.replace(" overhead 24 ", "")), Some(0));
        assert_eq!(root_overhead("qdisc noqueue 0: root refcnt 2 \n"), Some(0));
        assert_eq!(root_overhead(""), None);
    }

    #[test]
    fn other_words_are_no_discipline() {
        assert_eq!(Planned::read(&words("filter replace dev va ingress")), None);
        assert_eq!(Planned::read(&words("qdisc del dev va root")), None);
        assert_eq!(Planned::read(&words("qdisc replace dev va root handle 100:")), None);
        let clsact = words("qdisc replace dev va clsact");
        assert_eq!(Planned::read(&clsact).map(|planned| (planned.parent, planned.kind)), Some(("clsact", "clsact")));
    }
}
