//! Counting by `valgrind --tool=callgrind`.

use std::path::Path;
use std::process::Command;

/// What the counter is switched on by: a part of the function's name, mangled or not.
const COUNTED: &str = "*downbeat_counted_path*";

/// Instructions that the program executes itself inside the counted function when it walks the path `name`.
pub(super) fn count(program: &Path, name: &str) -> Result<u64, String> {
    let out = std::env::temp_dir().join(format!("downbeat-counts-{}-{name}", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .arg(name)
        .output()
        .map_err(|error| format!("valgrind did not start: {error}"))?;
    let profile = std::fs::read_to_string(&out);
    // Fails only when valgrind has not written it, which is told below.
    _ = std::fs::remove_file(&out);
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let profile = profile.map_err(|error| format!("{}: {error}", out.display()))?;
    match own_cost(&profile, &program.display().to_string()) {
        0 => Err(format!("{name}: callgrind found no function {COUNTED} in {}", program.display())),
        instructions => Ok(instructions),
    }
}

/// Sum of what the functions of the object `program` cost by themselves.
///
/// A profile has lines `ob=` for the object that the following functions are in, `line cost` for what a function costs
/// there by itself, and behind each `calls=` one such line for what the callee costs, which is the callee's own.
fn own_cost(profile: &str, program: &str) -> u64 {
    let (mut ours, mut callee, mut sum) = (false, false, 0);
    for line in profile.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            ours = object == program;
        } else if line.starts_with("calls=") {
            callee = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit()) && !std::mem::take(&mut callee) && ours {
            sum += line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_program_executes_itself_counts() {
        let profile = "\
version: 1
creator: callgrind-3.19.0
positions: line
events: Ir
summary: 1234

ob=/bin/counted
fl=counted.rs
fn=counted::downbeat_counted_path
10 5
fi=lib.rs
12 7
cob=/lib/libc.so.6
cfi=???
cfn=memcpy
calls=2 0
12 1000
cfn=counted::inner
calls=1 3
13 100

fn=counted::inner
3 100

ob=/lib/libc.so.6
fl=???
fn=memcpy
0 1000

totals: 1112
";
        assert_eq!(own_cost(profile, "/bin/counted"), 112);
        assert_eq!(own_cost(profile, "/lib/libc.so.6"), 1000);
        assert_eq!(own_cost(profile, "/bin/other"), 0);
    }
}
