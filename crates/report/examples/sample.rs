//! Writes a page of made-up runs, to look at: `cargo run -p downbeat-report --example sample -- page.html [frames]`.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use measure::Kind;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "sample.html".into());
    let frames = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(40_000);
    let runs = [synthetic::run(frames, Kind::Measured), synthetic::run(frames, Kind::Simulated)];
    let page = downbeat_report::page(&runs);
    println!("{path}: {} bytes", page.len());
    std::fs::write(path, page)
}
