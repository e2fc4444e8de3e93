//! What is made of queues that `tc` 6.1 told of on kernels that have them.

use super::*;

const MAP: &str = r#""tc":3,"map":[2,2,1,0,2,2,2,0,2,2,2,2,2,2,2,2]"#;
const ETF: &str = r#""clockid":"TAI","delta":500000,"offload":"off","deadline_mode":"off","skip_sock_check":"off""#;

fn mqprio(children: &str) -> String {
    let root = format!(
        r#"{{"kind":"mqprio","handle":"100:","root":true,"options":{{{MAP},"queues":[[0,0],[1,1],[2,3]],"mode":"dcb"}}}}"#
    );
    format!("[{root}{children}]")
}

fn child(parent: &str, kind: &str, options: &str) -> String {
    format!(r#",{{"kind":"{kind}","handle":"8002:","parent":"{parent}","options":{{{options}}}}}"#)
}

/// A taprio whose schedule has not begun: what `tc` prints then is no JSON.
fn taprio(flags: &str, children: &str) -> String {
    let schedule = r#""base_time":0,"cycle_time":0,"cycle_time_extension":0"#;
    let entry = r#"{"index":0,"cmd":"S","gatemask":"0x1","interval":50000}"#;
    let options = format!(
        r#"{MAP},"queues":[{{"offset":0,"count":1}},{{"offset":1,"count":1}},{{"offset":2,"count":2}}],"clockid":"TAI"{flags},{schedule},{{{schedule},"schedule":[{entry}]}}"#
    );
    format!(r#"[{{"kind":"taprio","handle":"100:","root":true,"options":{{{options}}}}}{children}]"#)
}

fn found(text: &str, priority: u8) -> Result<Etf, String> {
    etf_of(&read(text).unwrap(), priority)
}

#[test]
fn the_etf_queue_of_a_class_is_found() {
    let etf = Etf { delta: Nanos(500_000), offload: false, deadline: false, others_pass: false, assisted: false };
    let one = mqprio(&child("100:1", "etf", ETF));
    assert_eq!(found(&one, 7), Ok(etf), "priority 7 is class 0");
    assert!(found(&one, 2).unwrap_err().contains("place 2 of its mqprio has no etf"));
    // A class of two queues has etf only if both have.
    let half = mqprio(&(child("100:3", "etf", ETF) + &child("100:4", "fq_codel", "")));
    assert!(found(&half, 0).unwrap_err().contains("place 4 of its mqprio has fq_codel"));
    assert_eq!(found(&mqprio(&(child("100:3", "etf", ETF) + &child("100:4", "etf", ETF))), 0), Ok(etf));
    let root = format!(r#"[{{"kind":"etf","handle":"1:","root":true,"options":{{{ETF}}}}}]"#);
    assert_eq!(found(&root, 3), Ok(etf));
    let bands = r#"[{"kind":"prio","handle":"1:","root":true,"options":{"bands":3,"priomap":[1,2,2,2,1,2,0,0,1,1,1,1,1,1,1,1]}}"#;
    assert_eq!(found(&format!("{bands}{}]", child("1:1", "etf", ETF)), 6), Ok(etf));
    let plain = r#"[{"kind":"noqueue","handle":"0:","root":true,"options":{}}]"#;
    assert!(found(plain, 6).unwrap_err().contains("its queue is noqueue"));
    assert!(found("[]", 6).unwrap_err().contains("no queue"));
    let monotonic = ETF.replace("TAI", "MONOTONIC");
    assert!(found(&mqprio(&child("100:1", "etf", &monotonic)), 7).unwrap_err().contains("not TAI"));
}

#[test]
fn a_schedule_that_is_pending_is_read_all_the_same() {
    let text = taprio(r#","flags":"0x1","txtime_delay":500000"#, &child("100:1", "etf", ETF));
    assert!(serde_json::from_str::<Value>(&text).is_err(), "it is no JSON as told");
    assert!(found(&text, 7).unwrap().assisted);
    let whole = taprio("", &child("100:1", "etf", ETF))
        .replace(",{\"base_time\"", ",\"schedule\":[],\"pending\":{\"base_time\"");
    assert!(!found(&whole, 7).unwrap().assisted);
    let bare = taprio(r#","flags":"0x1""#, "");
    assert!(found(&bare, 7).unwrap_err().contains("place 1 of its taprio has no etf"), "it would not be held back");
    assert_eq!(tsn::named_json(r#"{"a":"{","b":[{"c":"\"{"}]}"#), r#"{"a":"{","b":[{"c":"\"{"}]}"#);
}

fn decided(
    queues: &str,
    launch: Launch,
    link: Link,
    edit: impl Fn(String) -> String,
) -> Result<Option<Departure>, LabError> {
    let text = edit(scenario::template("two-hosts").unwrap().to_owned());
    let scenario = scenario::read(&text, "t.toml").map_err(|wrong| wrong.render()).unwrap();
    let mut workers = station::workers(&scenario, scenario::HostId(0), |_, _| true, |_| Some("eth0"));
    decide(&scenario, (launch, link), &mut workers, |_| read(queues))?;
    Ok(workers.remove(0).ends.remove(0).departure)
}

#[test]
fn who_keeps_launch_times_follows_from_the_queue_and_from_what_is_asked_for() {
    let same = |text: String| text;
    let plain = r#"[{"kind":"noqueue","handle":"0:","root":true,"options":{}}]"#;
    let paced = decided(plain, Launch::Auto, Link::Auto, same).unwrap().unwrap();
    assert_eq!(paced.txtime, None);
    assert!(paced.mechanism.starts_with("own pacing") && paced.why.contains("noqueue"), "{paced:?}");
    let refused = decided(plain, Launch::Txtime, Link::Auto, same).unwrap_err();
    assert_eq!(refused.exit_code(), 3);
    assert!(refused.to_string().contains("frames would leave at once"), "{refused}");

    for (options, txtime, words) in [
        (ETF.to_owned(), Txtime::Strict, "early, at the launch time − 500us + wake-up latency"),
        (
            ETF.replace(r#""offload":"off""#, r#""offload":"on""#),
            Txtime::Strict,
            "(launch time in the network card): at",
        ),
        (ETF.replace(r#""deadline_mode":"off""#, r#""deadline_mode":"on""#), Txtime::Deadline, "at once"),
    ] {
        let queues = mqprio(&child("100:1", "etf", &options));
        for launch in [Launch::Auto, Launch::Txtime] {
            let kept = decided(&queues, launch, Link::Auto, same).unwrap().unwrap();
            assert_eq!((kept.txtime, kept.needed), (Some(txtime), true));
            assert!(kept.mechanism.contains(words), "{kept:?}");
            assert!(kept.why.contains("priority 7 at eth0 has an etf queue"), "{kept:?}");
        }
        // Without launch times it would drop all frames.
        let refused = decided(&queues, Launch::Pace, Link::Auto, same).unwrap_err();
        assert!(refused.to_string().contains("--launch pace gives it none"), "{refused}");
        let none = |text: String| text.replace("variables = 8", "launch = false\nvariables = 8");
        let refused = decided(&queues, Launch::Auto, Link::Auto, none).unwrap_err();
        assert!(refused.to_string().contains("frames of stream loop have none"), "{refused}");
    }
    let lenient =
        mqprio(&child("100:1", "etf", &ETF.replace(r#""skip_sock_check":"off""#, r#""skip_sock_check":"on""#)));
    assert_eq!(decided(&lenient, Launch::Pace, Link::Auto, same).unwrap().unwrap().txtime, None);
    assert!(!decided(&lenient, Launch::Auto, Link::Auto, same).unwrap().unwrap().needed);
    let past = decided(&lenient, Launch::Auto, Link::Xdp, same).unwrap().unwrap();
    assert!(past.txtime.is_none() && past.why.contains("AF_XDP passes the queues by"), "{past:?}");
}
