//! What the user named: a directory of a mounted remote file system, or by a URL a file that a
//! library reads in the process, without a mount.

use crate::fs::file::{Ground, Kind, ground};
use crate::fs::offered::text_at;
use bench::prelude::*;
use host::block::Mount;
use laws::fs::remote::{Client, Link, Way};
use std::io;
use std::net::IpAddr;
use std::path::{Component, Path};

pub(super) const NONE: &str = "none";
/// The way out of everything that is refused.
const WAY_OUT: &str = "--set fs.remote.path=/mnt/share (a directory of a mounted NFS, SMB, SSHFS … file \
                       system), --set fs.remote.path=nfs://server/export/file or \
                       --set fs.remote.path=smb://server/share/file";

pub(super) enum Target<'site> {
    Directory(Ground<'site>),
    File(Url),
}

/// What is to be read; why that cannot be.
pub(super) fn of<'site>(site: &'site Site, text: &str) -> Result<Target<'site>, Skip> {
    let target = match text {
        "" | NONE => Err("no remote path was given".to_owned()),
        text if text.contains("://") => Url::parse(text).map(Target::File),
        text => directory(site, text).map(Target::Directory),
    };
    target.map_err(|reason| Skip::because(reason).needs(WAY_OUT))
}

fn directory<'site>(site: &'site Site, text: &str) -> Result<Ground<'site>, String> {
    let path = Path::new(text);
    let is_plain =
        path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !is_plain {
        return Err(format!(
            "{text} must be an absolute path without . and .., because plumb looks it up in the \
             mount table"
        ));
    }
    if ["/dev", "/proc", "/sys"].iter().any(|special| path.starts_with(special)) {
        return Err(format!(
            "{text} is a device or a special file; give a directory, in which plumb creates files"
        ));
    }
    let ground = ground(site, path);
    let named = match ground.mount {
        Some(mount) => format!("{} mounted on {}", mount.fs, mount.target),
        None => "an unknown mount".to_owned(),
    };
    match ground.kind {
        Kind::Network | Kind::Fuse => Ok(ground),
        Kind::Device | Kind::Memory => Err(format!(
            "{text} is on this machine ({named}); measure it with fs.read and --dir {text}. For a \
             symbolic link, give its target; for an automount, list the directory first"
        )),
        // A cluster's file system that is not in any list has no disk here either.
        Kind::Stacked | Kind::Unknown if ground.mount.is_some_and(is_remote) => Ok(ground),
        Kind::Stacked | Kind::Unknown => {
            Err(format!("{text} is on {named}, which is not a known network file system"))
        }
    }
}

/// Whether a mount's source names another machine: `server:/path` or `//server/share`.
fn is_remote(mount: &Mount) -> bool {
    mount.source.starts_with("//") || mount.source.contains(":/") || mount.source.contains("@tcp:")
}

impl Target<'_> {
    /// The server's name or address, if the mount names it.
    fn server(&self) -> Option<String> {
        match self {
            Target::File(url) => Some(url.server.clone()),
            Target::Directory(ground) => server_of(ground.mount?),
        }
    }

    /// Puts what is known among the facts of a case: beside those of [`Ground::put`] `source` and
    /// `mount_point`, `server`, and of the link that leads there `interface`, `link` (`loopback`,
    /// `virtual`, `wireless`, `wired`), `link_bits_per_second`, `mtu_bytes` and `gateway`.
    pub(super) fn put(&self, site: &Site, at: &mut BTreeMap<String, Value>) {
        match self {
            Target::File(url) => {
                at.put("file_system", url.library().name);
                at.put("source", url.text.as_str());
            }
            Target::Directory(ground) => {
                ground.put(site, at);
                at.put_known("source", ground.mount.map(|mount| mount.source.as_str()));
                at.put_known("mount_point", ground.mount.map(|mount| mount.target.as_str()));
            }
        }
        let Some(server) = self.server() else {
            return;
        };
        at.put("server", server.as_str());
        let address = if server == "localhost" { "127.0.0.1" } else { &server };
        let address: Option<IpAddr> = address.parse().ok();
        let Some((interface, has_gateway)) = address.and_then(|to| site.host.net.way_to(to)) else {
            return;
        };
        let link = match (interface.loopback, interface.wireless, interface.is_virtual) {
            (true, ..) => Link::Loopback,
            (_, true, _) => Link::Wireless,
            (.., true) => Link::Virtual,
            _ => Link::Wired,
        };
        at.put("interface", interface.name.as_str());
        at.put("link", link.text());
        at.put("gateway", u64::from(has_gateway));
        at.put_known("link_bits_per_second", interface.speed_bits_per_second);
        at.put_known("mtu_bytes", interface.mtu_bytes);
    }
}

/// The server of a mount: the address that its options state, else the name in its source.
pub(super) fn server_of(mount: &Mount) -> Option<String> {
    let stated = mount.options.split(',').find_map(|option| option.strip_prefix("addr="));
    let named = || {
        let source = mount.source.as_str();
        let host = match source.strip_prefix("//") {
            Some(share) => share.split('/').next()?,
            None => source.rsplit_once(":/").or_else(|| source.split_once(':'))?.0,
        };
        let host = host.rsplit('@').next()?.trim_start_matches('[').trim_end_matches(']');
        Some(host).filter(|host| !host.is_empty())
    };
    stated.or_else(named).map(str::to_owned)
}

/// What lies between this machine's reader and the server, as the case's facts say.
pub(super) fn way(case: &Case) -> Way<'_> {
    let text = |name| text_at(case, name);
    let file_system = text("file_system").unwrap_or("an unknown file system");
    let is_of = |names: &[&str]| names.iter().any(|name| file_system.starts_with(name));
    let client = match LIBRARIES.iter().find(|library| library.name == file_system) {
        Some(library) => library.client,
        None if is_of(&["nfs"]) => Client::Nfs,
        None if is_of(&["cifs", "smb"]) => Client::Smb,
        None if is_of(&["fuse"]) => Client::Fuse,
        None => Client::Other,
    };
    Way {
        client,
        file_system,
        link: Link::of(case.at.get("link")).unwrap_or(Link::Unknown),
        server: text("server").and_then(|server| server.parse().ok()),
        interface: text("interface"),
        bits_per_second: case.int("link_bits_per_second"),
        mtu_bytes: case.int("mtu_bytes"),
        has_gateway: case.int("gateway").is_some_and(|gateway| gateway != 0),
    }
}

/// What reads the files of one protocol.
#[derive(Debug)]
pub(super) struct ClientLibrary {
    /// What stands among a case's facts as the file system of a file that nothing mounts.
    pub(super) name: &'static str,
    pub(super) client: Client,
    pub(super) look: fn() -> io::Result<()>,
    pub(super) package: &'static str,
}

pub(super) static LIBRARIES: [ClientLibrary; 2] = [
    ClientLibrary {
        name: "libnfs",
        client: Client::NfsLibrary,
        look: metal::nfs::Library::look,
        package: "the libnfs package: `apt install libnfs13` (libnfs14 or libnfs16 on newer systems), `dnf install \
                  libnfs`, `zypper install libnfs16`",
    },
    ClientLibrary {
        name: "libsmbclient",
        client: Client::SmbLibrary,
        look: metal::smb::Library::look,
        package: "the libsmbclient package: `apt install libsmbclient` (libsmbclient0 on newer systems), `dnf \
                  install libsmbclient`, `zypper install libsmbclient0`",
    },
];

/// Arguments of libnfs that a URL may have: they find the server and name the user. The others
/// (`readahead`, `pagecache`, `dircache` …) answer reads from memory, or wait longer.
const NFS_ARGUMENTS: [&str; 8] =
    ["version", "nfsport", "mountport", "uid", "gid", "tcp-syncnt", "auto-traverse-mounts", "sec"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// As it was typed; of NFS, with a short limit for making the connection.
    pub(super) text: String,
    pub(super) server: String,
    pub(super) protocol: Protocol,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// `nfs://server/export/file?version=4&…`.
    Nfs {
        export: String,
        file: String,
        /// The protocol's version, where it was typed.
        version: Option<i32>,
    },
    /// `smb://[[domain;]user@]server[:port]/share/directory/file`.
    Smb { port: Option<u16> },
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Url, String> {
        match text.split_once("://") {
            Some(("nfs", rest)) => nfs(text, rest),
            Some(("smb", rest)) => smb(text, rest),
            _ => Err(format!(
                "{text}: without a mount plumb only reads nfs:// and smb://; mount it and give the directory"
            )),
        }
    }

    pub(super) fn library(&self) -> &'static ClientLibrary {
        match self.protocol {
            Protocol::Nfs { .. } => &LIBRARIES[0],
            Protocol::Smb { .. } => &LIBRARIES[1],
        }
    }
}

fn nfs(text: &str, rest: &str) -> Result<Url, String> {
    let (place, arguments) = rest.split_once('?').unwrap_or((rest, ""));
    let (server, path) = place.split_once('/').unwrap_or((place, ""));
    let (export, file) = path.rsplit_once('/').unwrap_or(("", path));
    if server.is_empty() || file.is_empty() {
        return Err(format!("{text} names no file; use nfs://server/export/file"));
    }
    let server = match server.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']'),
        None => Some(server).filter(|server| !server.contains(':')),
    };
    let Some(server) = server else {
        return Err(format!("{text} has a port; write it as ?nfsport=PORT"));
    };
    let all = || arguments.split('&').filter(|one| !one.is_empty());
    let argument = |name: &str| {
        let mut pairs = all().filter_map(|one| one.split_once('='));
        pairs.find(|(have, _)| *have == name).map(|(_, value)| value)
    };
    let is_known =
        |one: &&str| one.split_once('=').is_some_and(|(name, _)| NFS_ARGUMENTS.contains(&name));
    if let Some(other) = all().find(|one| !is_known(one)) {
        return Err(format!(
            "{text}: {other} is not an accepted argument ({}, each with =VALUE); others enable \
             caches in the library or change its time-outs",
            NFS_ARGUMENTS.join(", ")
        ));
    }
    let version = match argument("version") {
        None => None,
        Some(typed @ ("3" | "4")) => typed.parse().ok(),
        Some(typed) => return Err(format!("{text}: version={typed} is neither 3 nor 4")),
    };
    // Without a limit the kernel sends for two minutes to a server that is not there.
    let limit = match (argument("tcp-syncnt"), arguments) {
        (Some(_), _) => "",
        (None, "") => "?tcp-syncnt=2",
        (None, _) => "&tcp-syncnt=2",
    };
    Ok(Url {
        text: format!("{}{limit}", text.trim_end_matches(['?', '&'])),
        server: server.to_owned(),
        protocol: Protocol::Nfs {
            export: unescaped(&format!("/{export}"))?,
            file: unescaped(&format!("/{file}"))?,
            version,
        },
    })
}

/// libsmbclient takes the text as it is, with its escapes.
fn smb(text: &str, rest: &str) -> Result<Url, String> {
    let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, server) = place.rsplit_once('@').unwrap_or(("", place));
    // It would stand in the record.
    if user.contains(':') {
        return Err("a URL must not hold a password; set the environment variable PASSWD instead"
            .to_owned());
    }
    if text.contains('?') {
        return Err(format!("{text}: smb:// takes no arguments (%3F is a question mark)"));
    }
    let (server, port) = server.split_once(':').map_or((server, None), |(a, b)| (a, Some(b)));
    let number = |port: &str| {
        let why = "is not a port number (write an IPv6 server by its host name)";
        port.parse().map_err(|_| format!("{text}: {port} {why}"))
    };
    let port = port.map(number).transpose()?;
    let is_whole = path
        .split_once('/')
        .is_some_and(|(share, file)| !share.is_empty() && !file.is_empty() && !file.ends_with('/'));
    if server.is_empty() || !is_whole {
        return Err(format!("{text} names no file; use smb://server/share/file"));
    }
    unescaped(path)?;
    let server = server.to_owned();
    Ok(Url { text: text.to_owned(), server, protocol: Protocol::Smb { port } })
}

/// `%20` is a space.
fn unescaped(text: &str) -> Result<String, String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| !digits.starts_with('+'));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let why = || format!("{text} has a % without two hexadecimal digits (%25 is %)");
        bytes.push(byte.ok_or_else(why)?);
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).map_err(|_| format!("{text} is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::{LIBRARIES, Protocol, Url, server_of};
    use host::block::Mount;

    #[test]
    fn servers_are_found_in_what_mounts_tell() {
        for (source, options, server) in [
            ("fileserver:/exp", "rw,vers=4.2,addr=10.0.0.2", Some("10.0.0.2")),
            ("fileserver:/exp", "rw", Some("fileserver")),
            ("[fe80::1]:/exp", "rw", Some("fe80::1")),
            ("//nas/share", "rw,vers=3.0", Some("nas")),
            ("user@10.0.0.2:/home/user", "rw,user_id=0", Some("10.0.0.2")),
            ("user@host:dir", "rw", Some("host")),
            ("tag", "rw,trans=virtio", None),
        ] {
            let mount = Mount {
                source: source.to_owned(),
                target: "/mnt".to_owned(),
                fs: "x".to_owned(),
                options: options.to_owned(),
                number: "0:50".to_owned(),
                below: Default::default(),
            };
            assert_eq!(server_of(&mount).as_deref(), server, "{source}");
        }
    }

    fn nfs(export: &str, file: &str, version: Option<i32>) -> Protocol {
        Protocol::Nfs { export: export.to_owned(), file: file.to_owned(), version }
    }

    #[test]
    fn urls_of_nfs_are_taken_apart() {
        let url =
            Url::parse("nfs://10.0.0.2/exp/some%20dir/f64?version=4&nfsport=2049").expect("one");
        assert_eq!(url.server, "10.0.0.2");
        assert_eq!(url.protocol, nfs("/exp/some dir", "/f64", Some(4)));
        assert!(url.text.ends_with("&nfsport=2049&tcp-syncnt=2"), "{}", url.text);
        let all = "nfs://s/e/f?uid=7&gid=8&mountport=9&tcp-syncnt=1&auto-traverse-mounts=0&sec=sys";
        assert_eq!(Url::parse(all).expect("all of them").text, all);
        let url = Url::parse("nfs://server/file").expect("in the root");
        assert_eq!(url.protocol, nfs("/", "/file", None));
        assert_eq!(url.text, "nfs://server/file?tcp-syncnt=2");
        assert_eq!(Url::parse("nfs://[fe80::1]/a/b").expect("IPv6").server, "fe80::1");
    }

    #[test]
    fn urls_of_smb_are_taken_apart() {
        for (text, server, port) in [
            ("smb://10.0.0.2/share/f64", "10.0.0.2", None),
            ("smb://nas:4450/share/some%20dir/f64", "nas", Some(4450)),
            ("smb://group;me@nas/share/f64", "nas", None),
            ("smb://me@there@nas/share/f64", "nas", None),
        ] {
            let url = Url::parse(text).expect(text);
            assert_eq!((url.text.as_str(), url.server.as_str()), (text, server));
            assert_eq!(url.protocol, Protocol::Smb { port });
        }
    }

    #[test]
    fn each_scheme_has_its_library() {
        let of = |text| Url::parse(text).expect("a file").library().name;
        let names = ["nfs://server/share/file", "smb://server/share/file"].map(of);
        assert_eq!(names, ["libnfs", "libsmbclient"]);
        assert_eq!(names, LIBRARIES.each_ref().map(|library| library.name));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
        for (wrong, word) in [
            ("nfs://server", "names no file"),
            ("nfs://server/exp/", "names no file"),
            ("nfs:///exp/file", "names no file"),
            ("nfs://server:2049/exp/file", "nfsport"),
            ("nfs://server/exp/file?version=5", "neither 3 nor 4"),
            ("nfs://server/exp/100%", "%25"),
            ("nfs://server/exp/file?readahead=1048576", "readahead=1048576 "),
            ("nfs://server/exp/file?version=4&pagecache=64", "pagecache=64 "),
            ("nfs://server/exp/file?autoreconnect=-1", "autoreconnect"),
            ("nfs://server/exp/file?version", "=VALUE"),
            ("smb://server/share", "names no file"),
            ("smb://server/share/", "names no file"),
            ("smb:///share/file", "names no file"),
            ("smb://server/share/dir/", "names no file"),
            ("smb://me:secret@server/share/file", "PASSWD"),
            ("smb://[fe80::1]/share/file", "IPv6"),
            ("smb://server:many/share/file", "many is not a port"),
            ("smb://server/share/file?WINS=x", "no arguments"),
            ("smb://server/share/100%", "%25"),
            ("ftp://server/file", "only reads nfs:// and smb://"),
        ] {
            let reason = Url::parse(wrong).expect_err(wrong);
            assert!(reason.contains(word) && !reason.contains("secret"), "{reason}");
        }
    }
}
