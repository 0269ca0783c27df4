//! `--peer [NAME=]URL`: what it says.

use crate::params::is_name;
use crate::setup::Usage;
use bench::experiment::LOOPBACK;

/// Name of a peer that was given none.
pub const NAMELESS: &str = "peer";

/// What is run at the far end of `ssh://` where the URL names no path.
const PLUMB: &str = "plumb";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerUrl {
    pub name: String,
    /// The URL as typed, without the name.
    pub text: String,
    pub transport: Transport,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The system's ssh starts it and carries its standard streams.
    Ssh(Ssh),
    Tcp {
        /// Name or address, without the brackets of an IPv6 one.
        host: String,
        port: u16,
    },
    /// A command starts it and carries its standard streams; for `sh -c`.
    Exec(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ssh {
    /// User there; ssh's choice where absent.
    pub user: Option<String>,
    /// Name, address or alias in ssh's configuration.
    pub host: String,
    /// Port; ssh's choice where absent.
    pub port: Option<u16>,
    /// The plumb there: a path, or a name on its PATH.
    pub plumb: String,
}

impl PeerUrl {
    /// Parses `[NAME=]URL`, where the URL is `ssh://[USER@]HOST[:PORT][/PATH/OF/PLUMB]`,
    /// `tcp://HOST:PORT`, or `exec:COMMAND`. Errors: what it is not, and what to type.
    pub fn parse(text: &str) -> Result<PeerUrl, Usage> {
        let bad = |reason: String| Usage(format!("--peer {text}: {reason}"));
        // A name has no colon, and what comes before one in a URL is no name.
        let (name, url) = match text.split_once('=') {
            Some((name, url)) if !name.contains(':') => (name, url),
            _ => (NAMELESS, text),
        };
        if !is_name(name) {
            return Err(bad(format!(
                "`{name}` is not a valid name: use letters, digits, `-`, `_` and `.`, 64 at most"
            )));
        }
        if name == LOOPBACK {
            return Err(bad(format!("`{LOOPBACK}` is the far end on this host: use another name")));
        }
        if url.chars().any(char::is_control) {
            return Err(bad("it contains a control character".to_owned()));
        }
        let transport = if let Some(rest) = url.strip_prefix("ssh://") {
            ssh(rest)
        } else if let Some(rest) = url.strip_prefix("tcp://") {
            tcp(rest)
        } else if let Some(command) = url.strip_prefix("exec:") {
            exec(command)
        } else {
            Err("type ssh://[USER@]HOST[:PORT], tcp://HOST:PORT (an agent that listens), or \
                 exec:COMMAND (which starts `plumb agent` elsewhere)"
                .to_owned())
        };
        Ok(PeerUrl {
            name: name.to_owned(),
            text: url.to_owned(),
            transport: transport.map_err(bad)?,
        })
    }

    /// Parses all of a command line. Errors: as [`PeerUrl::parse`]; two of one name.
    pub fn parse_all(texts: &[String]) -> Result<Vec<PeerUrl>, Usage> {
        let mut peers: Vec<PeerUrl> = Vec::new();
        for text in texts {
            let peer = PeerUrl::parse(text)?;
            if peers.iter().any(|other| other.name == peer.name) {
                return Err(Usage(format!(
                    "--peer {text}: two far ends have the name `{}`: give each its own, --peer \
                     NAME=URL",
                    peer.name
                )));
            }
            peers.push(peer);
        }
        Ok(peers)
    }
}

/// Written like this: `[USER@]HOST[:PORT][/PATH]`.
fn ssh(rest: &str) -> Result<Transport, String> {
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (user, place) = match authority.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, authority),
    };
    if user.is_some_and(|user| user.contains(':')) {
        return Err("a URL must not contain a password: set up ssh to log in with a key".to_owned());
    }
    // ssh would take one that begins so for an option.
    let is_user = |user: &str| {
        // A domain's user has a backslash in the middle.
        !user.is_empty()
            && !user.starts_with('-')
            && !user.ends_with('\\')
            && user.chars().all(|c| is_plain(c, "@+\\"))
    };
    if user.is_some_and(|user| !is_user(user)) {
        return Err("no user name before `@`".to_owned());
    }
    let (host, port) = host_and_port(place)?;
    Ok(Transport::Ssh(Ssh {
        user: user.map(str::to_owned),
        host,
        port,
        plumb: match path {
            "" | "/" => PLUMB.to_owned(),
            // Below the home directory there.
            path if path.starts_with("/~") => path[1..].to_owned(),
            path => path.to_owned(),
        },
    }))
}

/// Written like this: `HOST:PORT`.
fn tcp(rest: &str) -> Result<Transport, String> {
    match host_and_port(rest.trim_end_matches('/'))? {
        (host, Some(port)) => Ok(Transport::Tcp { host, port }),
        (host, None) => Err(format!(
            "the port is missing: `plumb agent --listen` says which, tcp://{host}:PORT"
        )),
    }
}

fn exec(command: &str) -> Result<Transport, String> {
    match command.trim() {
        "" => Err("no command follows it".to_owned()),
        command => Ok(Transport::Exec(command.to_owned())),
    }
}

/// Whether a name may hold this. ssh's configuration may hand it to a shell (ProxyCommand, Match
/// exec), which must find nothing in it to act on.
fn is_plain(c: char, more: &str) -> bool {
    c.is_alphanumeric() || ".-_%".contains(c) || more.contains(c)
}

/// A host, in brackets where it is an IPv6 address, and the port after it.
fn host_and_port(place: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = match place.strip_prefix('[') {
        Some(inside) => {
            let (host, after) =
                inside.split_once(']').ok_or_else(|| "a `[` has no `]`".to_owned())?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(format!("unexpected `{after}` after the `]`")),
            }
        }
        None => match place.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(format!("put an IPv6 address in brackets: [{place}]"));
            }
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let is_host = |host: &str| {
        !host.is_empty() && !host.starts_with('-') && host.chars().all(|c| is_plain(c, ":"))
    };
    if !is_host(host) {
        return Err(format!("`{host}` is not a host name or address"));
    }
    let port = port.map(|text| match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("`{text}` is not a port: type a number from 1 to 65535")),
    });
    Ok((host.to_owned(), port.transpose()?))
}

#[cfg(test)]
mod tests {
    use super::{PeerUrl, Ssh, Transport};

    fn ssh(user: Option<&str>, host: &str, port: Option<u16>, plumb: &str) -> Transport {
        Transport::Ssh(Ssh {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
            plumb: plumb.to_owned(),
        })
    }

    fn tcp(host: &str, port: u16) -> Transport {
        let host = host.to_owned();
        Transport::Tcp { host, port }
    }

    #[test]
    fn urls_and_names() {
        let check = |text: &str, name: &str, transport: Transport| {
            let peer = PeerUrl::parse(text).expect(text);
            assert_eq!((peer.name.as_str(), &peer.transport), (name, &transport), "{text}");
            assert!(text.ends_with(&peer.text), "{text}");
        };
        check("ssh://far", "peer", ssh(None, "far", None, "plumb"));
        check("b=ssh://me@far:2222", "b", ssh(Some("me"), "far", Some(2222), "plumb"));
        check("ssh://far/opt/plumb", "peer", ssh(None, "far", None, "/opt/plumb"));
        check("ssh://far/~/bin/plumb", "peer", ssh(None, "far", None, "~/bin/plumb"));
        check("ssh://me@corp@[fe80::1%eth0]:22", "peer", {
            ssh(Some("me@corp"), "fe80::1%eth0", Some(22), "plumb")
        });
        check("tcp://10.0.0.1:7777", "peer", tcp("10.0.0.1", 7777));
        check("rack-2=tcp://[::1]:1/", "rack-2", tcp("::1", 1));
        check("exec: env A=b plumb agent ", "peer", {
            Transport::Exec("env A=b plumb agent".to_owned())
        });
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_to_type() {
        let check = |text: &str, said: &str| {
            let error = PeerUrl::parse(text).expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        };
        check("far", "ssh://[USER@]HOST");
        check("http://far", "ssh://[USER@]HOST");
        check("=ssh://far", "`` is not a valid name");
        check("a b=ssh://far", "is not a valid name");
        check("loopback=ssh://far", "another name");
        check("ssh://", "`` is not a host");
        check("ssh://-oProxyCommand=x", "not a host");
        check("ssh://-l@far", "user name");
        check("ssh://me\\@far", "user name");
        for shell in ["$(id)", "`id`", "a;id", "a'b", "a\"b", "a|b", "a&b", "a>b", "a*"] {
            check(&format!("ssh://{shell}"), "not a host");
            check(&format!("ssh://{shell}@far"), "user name");
        }
        check("ssh://me:secret@far", "a password");
        check("ssh://far:port", "not a port");
        check("ssh://far:0", "not a port");
        check("tcp://far", "the port is missing");
        check("tcp://far:65536", "not a port");
        check("tcp://fe80::1:7", "in brackets");
        check("tcp://[::1:7", "no `]`");
        check("tcp://[::1]7", "after the `]`");
        check("exec: ", "no command");
        check("tcp://far\n:7", "control character");
    }

    #[test]
    fn two_of_one_name_are_refused() {
        let all = |texts: [&str; 2]| PeerUrl::parse_all(&texts.map(str::to_owned));
        assert_eq!(all(["ssh://a", "b=ssh://b"]).expect("differ").len(), 2);
        let error = all(["ssh://a", "ssh://b"]).expect_err("both are `peer`");
        assert!(error.to_string().contains("--peer NAME=URL"), "{error}");
    }
}
