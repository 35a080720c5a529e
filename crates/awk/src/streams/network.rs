//! `/inet/PROTOCOL/LOCAL-PORT/HOST/REMOTE-PORT`: connections as files (gawk manual, "Using gawk for Network Programming").
//!
//! Invariant: what comes out is one connected socket; a server (host `0`) waits here for its first client. UDP datagrams
//! are cut where the buffers go out, one datagram each.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{self, AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};

/// Where the names of services are.
const SERVICES: &str = "/etc/services";

/// Clients that may wait while the first is served; the rest are refused by the system.
const BACKLOG: i32 = 1;

/// How often and at what distance a connection is tried: `GAWK_SOCK_RETRIES` and `GAWK_MSEC_SLEEP`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempts {
    pub(super) count: u32,
    pub(super) pause_ms: u64,
}

impl Default for Attempts {
    fn default() -> Attempts {
        Attempts {
            count: 1,
            pause_ms: 1000,
        }
    }
}

/// A name of a connection, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    /// `/inet4` or `/inet6`; else whatever the host has.
    is_v6: Option<bool>,
    is_udp: bool,
    local_port: &'a str,
    host: &'a str,
    remote_port: &'a str,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The address means nothing.
    Address(String),
    /// The system says no.
    System(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::System(error)
    }
}

impl From<rustix::io::Errno> for Refusal {
    fn from(error: rustix::io::Errno) -> Refusal {
        Refusal::System(error.into())
    }
}

impl<'a> Address<'a> {
    /// `None` for what is no name of a connection: a file, or a command.
    pub(super) fn parse(name: &'a [u8]) -> Option<Address<'a>> {
        if !name.starts_with(b"/inet") {
            return None;
        }
        let mut parts = std::str::from_utf8(name).ok()?[1..].split('/');
        let is_v6 = match parts.next()? {
            "inet" => None,
            "inet4" => Some(false),
            "inet6" => Some(true),
            _ => return None,
        };
        let is_udp = match parts.next()? {
            "tcp" => false,
            "udp" => true,
            _ => return None,
        };
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let (local_port, host, remote_port) = (part()?, part()?, part()?);
        let address = Address {
            is_v6,
            is_udp,
            local_port,
            host,
            remote_port,
        };
        parts.next().is_none().then_some(address)
    }

    /// Connects, or waits for a client.
    pub(super) fn open(&self, attempts: Attempts) -> Result<File, Refusal> {
        let local_port = self.port(self.local_port)?;
        if self.host == "0" {
            return self.serve(local_port);
        }
        let remote_port = self.port(self.remote_port)?;
        let resolved = (self.host, remote_port).to_socket_addrs();
        let resolved = resolved.map_err(|error| {
            Refusal::Address(format!("host {:?} is not known: {error}", self.host))
        })?;
        let addresses: Vec<SocketAddr> = resolved
            .filter(|address| self.is_v6.is_none_or(|v6| address.is_ipv6() == v6))
            .collect();
        let mut refusal = Refusal::Address(format!(
            "host {:?} has no address of the family asked for",
            self.host
        ));
        for attempt in 0..attempts.count.max(1) {
            if attempt > 0 {
                std::thread::sleep(Duration::from_millis(attempts.pause_ms));
            }
            // IPv4 last, so that its reason is told: a machine without IPv6 has a useless one for that.
            for address in &addresses {
                match self.connect(local_port, *address) {
                    Ok(socket) => return Ok(socket),
                    Err(error) => refusal = error,
                }
            }
        }
        Err(refusal)
    }

    fn connect(&self, local_port: u16, address: SocketAddr) -> Result<File, Refusal> {
        let socket = self.socket(address.is_ipv6())?;
        if local_port != 0 {
            sockopt::set_socket_reuseaddr(&socket, true)?;
            net::bind(&socket, &any(address.is_ipv6(), local_port))?;
        }
        net::connect(&socket, &address)?;
        Ok(File::from(socket))
    }

    fn serve(&self, local_port: u16) -> Result<File, Refusal> {
        let is_v6 = self.is_v6 == Some(true);
        let socket = self.socket(is_v6)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        net::bind(&socket, &any(is_v6, local_port))?;
        if self.is_udp {
            let socket = UdpSocket::from(socket);
            // Only looked at: it is the first thing that the program reads.
            let (_, client) = socket.peek_from(&mut [0])?;
            socket.connect(client)?;
            return Ok(File::from(OwnedFd::from(socket)));
        }
        net::listen(&socket, BACKLOG)?;
        let client = net::accept_with(&socket, SocketFlags::CLOEXEC)?;
        Ok(File::from(client))
    }

    fn socket(&self, is_v6: bool) -> rustix::io::Result<OwnedFd> {
        let family = if is_v6 {
            AddressFamily::INET6
        } else {
            AddressFamily::INET
        };
        let kind = if self.is_udp {
            SocketType::DGRAM
        } else {
            SocketType::STREAM
        };
        net::socket_with(family, kind, SocketFlags::CLOEXEC, None)
    }

    /// The number of a port given as a number or as the name of a service.
    fn port(&self, text: &str) -> Result<u16, Refusal> {
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return text.parse().map_err(|_| {
                Refusal::Address(format!("port {text} is out of range: ports are 0-65535"))
            });
        }
        let services = std::fs::read_to_string(SERVICES).unwrap_or_default();
        let protocol = if self.is_udp { "udp" } else { "tcp" };
        service_port(&services, text, protocol).ok_or_else(|| {
            let what = format!("service {text:?} is not in {SERVICES}; give the port's number");
            Refusal::Address(what)
        })
    }
}

/// What a service's line says: `name port/protocol aliases # comment`.
fn service_port(services: &str, name: &str, protocol: &str) -> Option<u16> {
    services.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let official = words.next()?;
        let (port, its_protocol) = words.next()?.split_once('/')?;
        let is_meant = official == name || words.any(|alias| alias == name);
        (is_meant && its_protocol == protocol).then(|| port.parse().ok())?
    })
}

fn any(is_v6: bool, port: u16) -> SocketAddr {
    let address = if is_v6 {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    } else {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    };
    SocketAddr::new(address, port)
}

/// Tells the other side that nothing more is sent. A datagram socket, or one whose other side is gone, has nobody to tell.
pub(super) fn end_writing(socket: &File) {
    let _ = net::shutdown(socket, Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let parse = |name: &'static str| Address::parse(name.as_bytes());
        let address = parse("/inet/tcp/0/localhost/80").unwrap();
        assert_eq!((address.host, address.remote_port), ("localhost", "80"));
        assert_eq!(parse("/inet6/udp/53/::1/0").unwrap().is_v6, Some(true));
        for name in [
            "/inet",
            "/inet/tcp/0/h",
            "/inet/tcp/0/h/",
            "/inet/raw/0/h/1",
            "/inet/tcp/0/h/1/x",
            "/inet5/tcp/0/h/1",
            "/inetd",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn services_have_ports() {
        let text = "# none\nhttp 80/tcp www # web\ndomain 53/tcp\ndomain 53/udp\n";
        assert_eq!(service_port(text, "http", "tcp"), Some(80));
        assert_eq!(service_port(text, "www", "tcp"), Some(80));
        assert_eq!(service_port(text, "http", "udp"), None);
        assert_eq!(service_port(text, "domain", "udp"), Some(53));
        assert_eq!(service_port(text, "web", "tcp"), None);
    }

    #[test]
    fn bad_addresses_say_what_is_wrong() {
        for (name, what) in [
            ("/inet/tcp/0/localhost/no-such-service", "no-such-service"),
            ("/inet/tcp/99999/localhost/80", "0-65535"),
            ("/inet4/tcp/0/::1/80", "family"),
        ] {
            let address = Address::parse(name.as_bytes()).unwrap();
            match address.open(Attempts::default()) {
                Err(Refusal::Address(text)) => assert!(text.contains(what), "{text}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_client_reaches_a_listener() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!(
            "/inet/tcp/0/127.0.0.1/{}",
            listener.local_addr().unwrap().port()
        );
        let mut client = Address::parse(name.as_bytes())
            .unwrap()
            .open(Attempts::default())
            .unwrap();
        client.write_all(b"to").unwrap();
        end_writing(&client);
        let (mut server, _) = listener.accept().unwrap();
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "to");
    }
}
