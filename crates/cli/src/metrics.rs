//! The figures of a run for Prometheus: text over HTTP, as long as the run lasts.

mod families;
mod request;
mod server;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use prometheus::{Encoder, TextEncoder};

use crate::live::Shared;
use crate::output::Failure;
pub(crate) use server::Server;

/// Reads ADDRESS:PORT or, on the loopback address, PORT.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse()
        .map_err(|_| "expected an address and a port, for example 127.0.0.1:9464 or [::1]:9464, or a port".into())
}

/// Takes the address, before anything else is done for the run.
///
/// # Errors
/// It is taken or not of this machine, or this user may not have it.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| {
        Failure::machine(format!(
            "metrics cannot be served at {address}: {error}\n  mend: name another with --metrics, for example \
             --metrics 127.0.0.1:0 for any free port"
        ))
    })
}

/// Serves what is known of the run, until dropped.
///
/// # Errors
/// The system gives no thread.
pub(crate) fn serve(listener: TcpListener, shared: Arc<Shared>) -> std::io::Result<Server> {
    Server::start(listener, move || page(&shared))
}

fn page(shared: &Shared) -> Vec<u8> {
    let families = families::families(&shared.state());
    let mut page = Vec::new();
    // It fails only for a family without a name or without samples, and there are none such.
    _ = TextEncoder::new().encode(&families, &mut page);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_port_is_of_the_loopback_address() {
        assert_eq!(address("9464"), Ok("127.0.0.1:9464".parse().unwrap()));
        assert_eq!(address("[::1]:80"), Ok("[::1]:80".parse().unwrap()));
        assert_eq!(address("0.0.0.0:1"), Ok("0.0.0.0:1".parse().unwrap()));
        for wrong in ["", "localhost", "127.0.0.1", "127.0.0.1:", "65536", "-1"] {
            assert!(address(wrong).unwrap_err().contains("127.0.0.1:9464"), "{wrong}");
        }
    }

    #[test]
    fn a_taken_port_is_said_with_its_mend() {
        let first = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let failure = listen(first.local_addr().unwrap()).unwrap_err();
        assert_eq!(failure.code, crate::output::CANNOT);
        assert!(failure.text.contains("--metrics"), "{}", failure.text);
    }
}
