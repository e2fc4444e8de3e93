//! A web server under requests, and a computation that fills every processor up to a share.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::busy::compute_partly;
use super::child::Work;
use super::cores::CoreTimes;
use super::network::move_away;

/// How busy every processor is to be, percent: "about 30 % utilization on each of the four cores" (Gopiga et al.).
const BUSY_PERCENT: f64 = 30.0;

/// What is still about that.
const TOLERANCE_PERCENT: f64 = 10.0;

/// Where the computation begins, thousandths of the time; the server takes the rest.
const FIRST_SHARE: u32 = 250;

/// From one look at the processors to the next: 25 to 250 ticks of the kernel.
const TURN: Duration = Duration::from_millis(250);

/// Part of a deviation that is corrected in one turn.
const GAIN: f64 = 0.4;

const CLIENTS: usize = 2;
/// From one request of a client to the next.
const BETWEEN_REQUESTS: Duration = Duration::from_millis(4);
/// Requests on one connection before the next one is made.
const ON_ONE_CONNECTION: usize = 100;
const PAGE_BYTES: usize = 4_096;
/// The longest head of a request that is read.
const HEAD_BYTES: u64 = 8_192;
/// How long a side waits for the other before it gives the connection up. At the end the client closes it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The load of a web server and of a computation beside it.
pub(super) fn serve() -> Result<Work, String> {
    let mut work = Work::default();
    if let Err(why) = move_away() {
        work.notes.push(format!("the web server is in the host's own network namespace: {}", why.trim()));
    }
    let failed = |error: io::Error| format!("a web server on 127.0.0.1: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let (answered, refused) = (work.count("HTTP requests answered"), work.count("HTTP requests failed"));
    work.spawn(move |stop| accept(&listener, stop));
    for _ in 0..CLIENTS {
        let (answered, refused) = (Arc::clone(&answered), Arc::clone(&refused));
        work.spawn(move |stop| client(address, &answered, &refused, stop));
    }
    let computed = work.count("microseconds computed");
    let cpus = rt::wakeup::allowed_cpus();
    let shares: Arc<Vec<_>> = Arc::new(cpus.iter().map(|_| AtomicU32::new(FIRST_SHARE)).collect());
    for (index, &cpu) in cpus.iter().enumerate() {
        let (shares, computed) = (Arc::clone(&shares), Arc::clone(&computed));
        work.spawn(move |stop| compute_partly(cpu, &shares[index], &computed, stop));
    }
    work.spawn(move |stop| regulate(&cpus, &shares, stop));
    Ok(work)
}

/// Corrects the computation on every processor by how busy it was in the last turn.
fn regulate(cpus: &[usize], shares: &[AtomicU32], stop: &AtomicBool) {
    let mut before = CoreTimes::read();
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(TURN);
        let now = CoreTimes::read();
        let busy = now.busy_percent_since(&before);
        before = now;
        for (cpu, share) in cpus.iter().zip(shares) {
            let Some(busy) = busy.get(cpu) else { continue };
            let corrected = corrected(share.load(Ordering::Relaxed), *busy);
            share.store(corrected, Ordering::Relaxed);
        }
    }
}

/// Words for processors that were not about as busy as they should be.
pub(super) fn off_the_aim(busy_percent: &BTreeMap<usize, f64>) -> Option<String> {
    let off = |busy: &f64| (busy - BUSY_PERCENT).abs() > TOLERANCE_PERCENT;
    let cpus = busy_percent.iter().filter(|(_, busy)| off(busy));
    let cpus: Vec<String> = cpus.map(|(cpu, busy)| format!("processor {cpu} was {busy:.1} % busy")).collect();
    (!cpus.is_empty()).then(|| format!("{}, not about {BUSY_PERCENT} %", cpus.join(", ")))
}

fn corrected(share: u32, busy_percent: f64) -> u32 {
    let step = (BUSY_PERCENT - busy_percent) * 10.0 * GAIN;
    (f64::from(share) + step).clamp(0.0, 10.0 * BUSY_PERCENT) as u32
}

/// Takes connections; each has a thread, and there are as many as clients.
fn accept(listener: &TcpListener, stop: &AtomicBool) {
    thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => _ = scope.spawn(move || answer_all(&stream, stop)),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    });
}

/// Answers the requests of a connection until its client closes it.
fn answer_all(stream: &TcpStream, stop: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.take(HEAD_BYTES));
    let page = vec![b'.'; PAGE_BYTES];
    while !stop.load(Ordering::Relaxed) {
        reader.get_mut().set_limit(HEAD_BYTES);
        let Some(first) = head(&mut reader)? else { return Ok(()) };
        let (status, body) = match first.strip_prefix("GET /") {
            Some(_) => ("200 OK", &page[..]),
            None => ("400 Bad Request", &b"only GET\n"[..]),
        };
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n");
        let answer = [head.as_bytes(), body].concat();
        (&mut &*stream).write_all(&answer)?;
    }
    Ok(())
}

/// Reads a request or an answer up to its empty line; its first line, or none when the other side has closed.
fn head(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.trim().is_empty() {
            return Ok(Some(first));
        }
    }
}

/// Asks for the page at a steady pace, on one connection after the other.
fn client(address: SocketAddr, answered: &AtomicU64, failed: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        if ask(address, answered, stop).is_err() && !stop.load(Ordering::Relaxed) {
            failed.fetch_add(1, Ordering::Relaxed);
            thread::sleep(BETWEEN_REQUESTS);
        }
    }
}

fn ask(address: SocketAddr, answered: &AtomicU64, stop: &AtomicBool) -> io::Result<()> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(&stream);
    let mut page = vec![0; PAGE_BYTES];
    for _ in 0..ON_ONE_CONNECTION {
        let began = Instant::now();
        (&mut &stream).write_all(b"GET / HTTP/1.1\r\nHost: load\r\n\r\n")?;
        let first = head(&mut reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if !first.starts_with("HTTP/1.1 200 ") {
            return Err(io::Error::other(first));
        }
        reader.read_exact(&mut page)?;
        answered.fetch_add(1, Ordering::Relaxed);
        if stop.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep(BETWEEN_REQUESTS.saturating_sub(began.elapsed()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_follows_how_busy_a_processor_is() {
        let mut share = FIRST_SHARE;
        // A server that takes 12 % of the processor.
        for _ in 0..20 {
            share = corrected(share, f64::from(share) / 10.0 + 12.0);
        }
        assert!((160..=185).contains(&share), "{share}");
        assert_eq!(corrected(10, 100.0), 0);
        assert_eq!(corrected(290, 0.0), 300, "an empty processor is not driven beyond the aim");
    }

    #[test]
    fn a_processor_that_others_keep_busy_is_named() {
        assert_eq!(off_the_aim(&BTreeMap::from([(0, 27.0), (1, 38.5)])), None);
        let words = off_the_aim(&BTreeMap::from([(0, 99.8), (1, 31.0), (2, 4.0)])).unwrap();
        assert_eq!(words, "processor 0 was 99.8 % busy, processor 2 was 4.0 % busy, not about 30 %");
    }

    #[test]
    fn the_server_answers_and_refuses_in_http() {
        let stop = AtomicBool::new(false);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let counts = [AtomicU64::new(0), AtomicU64::new(0)];
        thread::scope(|scope| {
            scope.spawn(|| accept(&listener, &stop));
            ask(address, &counts[0], &stop).unwrap();
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"PUT / HTTP/1.1\r\nHost: load\r\n\r\n").unwrap();
            let first = head(&mut BufReader::new(&stream)).unwrap().unwrap();
            assert!(first.starts_with("HTTP/1.1 400"), "{first}");
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(counts[0].load(Ordering::Relaxed), ON_ONE_CONNECTION as u64);
    }
}
