use super::*;

fn server(bytes: usize) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Server::start(listener, move || vec![b'x'; bytes]).unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    // Longer than anything here lasts, so that a test that hangs fails.
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";

#[test]
fn a_page_larger_than_any_buffer_arrives_whole() {
    let server = server(3_000_000);
    for _ in 0..3 {
        let answer = ask(&mut connect(&server), REQUEST);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/plain; version=0.0.4"), "{head}");
        assert_eq!(body.len(), 3_000_000);
    }
}

#[test]
fn a_request_in_pieces_and_one_with_a_body_are_answered() {
    let server = server(5);
    let mut stream = connect(&server);
    for byte in &REQUEST[..REQUEST.len() - 1] {
        stream.write_all(&[*byte]).unwrap();
    }
    assert!(ask(&mut stream, b"\n").ends_with("xxxxx"));
    let with_body = [b"POST /metrics HTTP/1.1\r\nContent-Length: 2000\r\n\r\n".as_slice(), &[b'a'; 2000]].concat();
    assert!(ask(&mut connect(&server), &with_body).starts_with("HTTP/1.1 405"));
}

#[test]
fn garbage_is_refused_and_forgotten() {
    let server = server(5);
    let mut garbage: Vec<u8> = (0..20_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    garbage[0] = 0x16;
    for length in [1, 100, HEAD_BYTES, 20_000] {
        let mut stream = connect(&server);
        // It may be closed before all is sent.
        _ = stream.write_all(&garbage[..length]);
        _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
    }
    assert!(ask(&mut connect(&server), REQUEST).ends_with("xxxxx"));
}

#[test]
fn many_who_say_nothing_keep_nobody_out() {
    let server = server(5);
    let idle: Vec<TcpStream> = (0..4 * CONNECTIONS).map(|_| connect(&server)).collect();
    assert!(ask(&mut connect(&server), REQUEST).ends_with("xxxxx"));
    // The first of them were ended, for the number of connections is bounded.
    let mut byte = [0];
    assert!(matches!((&idle[0]).read(&mut byte), Ok(0) | Err(_)));
}

#[test]
fn a_connection_lasts_only_so_long() {
    let server = server(5);
    let mut idle = connect(&server);
    let begun = Instant::now();
    idle.write_all(b"GET /metr").unwrap();
    let mut byte = [0];
    assert!(matches!(idle.read(&mut byte), Ok(0)), "closed by the server");
    assert!(begun.elapsed() >= TIME / 2);
}

#[test]
fn one_who_does_not_read_holds_nobody_up_and_the_end_is_the_end() {
    let server = server(50_000_000);
    let mut deaf = connect(&server);
    deaf.write_all(REQUEST).unwrap();
    assert!(ask(&mut connect(&server), b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    let address = server.address();
    drop(server);
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}
