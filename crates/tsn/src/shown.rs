//! What `tc` shows.

/// What `tc -j` printed, as JSON: gives the key `pending` to an object that stands without one among the members of another,
/// as the schedule of a taprio does that waits for its base-time (all versions of iproute2 so far).
///
/// ```
/// let shown = r#"[{"kind":"taprio","options":{"clockid":"TAI",{"base_time":5}}}]"#;
/// assert_eq!(downbeat_tsn::named_json(shown), r#"[{"kind":"taprio","options":{"clockid":"TAI","pending":{"base_time":5}}}]"#);
/// ```
pub fn named_json(text: &str) -> String {
    let (mut out, mut open, mut last) = (String::with_capacity(text.len() + 16), Vec::new(), ' ');
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        if quoted {
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else {
            if c == '{' && open.last() == Some(&'{') && last != ':' {
                out.push_str("\"pending\":");
            }
            match c {
                '{' | '[' => open.push(c),
                '}' | ']' => _ = open.pop(),
                '"' => quoted = true,
                _ => {}
            }
        }
        if !c.is_whitespace() {
            last = c;
        }
        out.push(c);
    }
    out
}
