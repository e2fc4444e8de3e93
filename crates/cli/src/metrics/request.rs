//! One request, and the answer to it.

/// Bytes of a request's head.
pub(super) const HEAD_BYTES: usize = 4096;
const HEADERS: usize = 32;

/// The answer to a request's head as far as it has come; `None` while it is not whole.
pub(super) fn answer(head: &[u8], page: &impl Fn() -> Vec<u8>) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if head.len() < HEAD_BYTES => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Some(refusal("431 Request Header Fields Too Large", "", "the request is too long"));
        }
        Err(_) => return Some(refusal("400 Bad Request", "", "this is no HTTP request")),
    }
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    Some(match (path, request.method.unwrap_or_default()) {
        ("/metrics", "GET") => found(&page(), true),
        ("/metrics", "HEAD") => found(&page(), false),
        ("/metrics", _) => refusal("405 Method Not Allowed", "Allow: GET, HEAD\r\n", "only GET and HEAD"),
        _ => refusal("404 Not Found", "", "there is only /metrics"),
    })
}

fn found(page: &[u8], with_body: bool) -> Vec<u8> {
    let mut answer = head("200 OK", prometheus::TEXT_FORMAT, "", page.len()).into_bytes();
    if with_body {
        answer.extend_from_slice(page);
    }
    answer
}

fn refusal(status: &str, more: &str, words: &str) -> Vec<u8> {
    (head(status, "text/plain; charset=utf-8", more, words.len() + 1) + words + "\n").into_bytes()
}

fn head(status: &str, kind: &str, more: &str, bytes: usize) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\n{more}Connection: close\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(head: &[u8]) -> Option<String> {
        answer(head, &|| b"figures\n".to_vec()).map(|answer| String::from_utf8(answer).unwrap())
    }

    fn status(head: &str) -> String {
        answered(head.as_bytes()).unwrap()[9..12].to_owned()
    }

    #[test]
    fn each_request_gets_its_answer() {
        assert_eq!(status("GET /metrics HTTP/1.1\r\n\r\n"), "200");
        assert_eq!(status("GET /metrics?x=y HTTP/1.0\r\nHost: a\r\n\r\n"), "200");
        for path in ["/", "/metric", "/metrics/", "*", "http://a/metrics"] {
            assert_eq!(status(&format!("GET {path} HTTP/1.1\r\n\r\n")), "404", "{path}");
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "get"] {
            assert_eq!(status(&format!("{method} /metrics HTTP/1.1\r\n\r\n")), "405", "{method}");
        }
        assert_eq!(answered(b"GET /metrics HTTP/1.1\r\nHost: a\r\n"), None);
        assert_eq!(status("\u{16}\u{3}\u{1} a TLS hello"), "400");
        assert_eq!(status(&format!("GET /{}", "a".repeat(HEAD_BYTES))), "431");
        assert_eq!(status(&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(40))), "431");
    }

    #[test]
    fn a_head_has_no_body() {
        let answer = answered(b"HEAD /metrics HTTP/1.1\r\n\r\n").unwrap();
        assert!(answer.contains("Content-Length: 8\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    }
}
