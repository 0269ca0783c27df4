//! What the user named: a directory of a mounted remote file system.

use crate::fs::file::{Ground, Kind, ground};
use crate::fs::offered::text_at;
use bench::prelude::*;
use host::block::Mount;
use laws::fs::remote::{Client, Link, Way};
use std::net::IpAddr;
use std::path::{Component, Path};

pub(super) const NONE: &str = "none";
/// The way out of everything that is refused.
const WAY_OUT: &str = "--set fs.remote.path=/mnt/share (a directory of a mounted NFS, SMB, SSHFS … file \
                       system)";

/// The directory; why nothing can be read there.
pub(super) fn remote_ground<'site>(site: &'site Site, text: &str) -> Result<Ground<'site>, Skip> {
    let target = match text {
        "" | NONE => Err("no remote path was given".to_owned()),
        text => match text.split_once("://") {
            Some((scheme, _)) => Err(unmounted(scheme)),
            None => directory(site, text),
        },
    };
    target.map_err(|reason| Skip::because(reason).needs(WAY_OUT))
}

/// Why a URL is refused. The rest of it, which may hold a password, is not repeated.
fn unmounted(scheme: &str) -> String {
    let mount = match scheme {
        "nfs" => "mount -t nfs SERVER:/EXPORT /mnt/share",
        "smb" | "cifs" => "mount -t cifs //SERVER/SHARE /mnt/share",
        _ => "mount(8)",
    };
    format!("plumb does not open {scheme}:// itself: mount it (`{mount}`) and give the directory")
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

/// Puts what is known among the facts of a case: beside those of [`Ground::put`] `source` and
/// `mount_point`, `server`, and of the link that leads there `interface`, `link` (`loopback`,
/// `virtual`, `wireless`, `wired`), `link_bits_per_second`, `mtu_bytes` and `gateway`.
pub(super) fn put(ground: &Ground, site: &Site, at: &mut BTreeMap<String, Value>) {
    ground.put(site, at);
    at.put_known("source", ground.mount.map(|mount| mount.source.as_str()));
    at.put_known("mount_point", ground.mount.map(|mount| mount.target.as_str()));
    let Some(server) = ground.mount.and_then(server_of) else {
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
    let client = match file_system {
        _ if is_of(&["nfs"]) => Client::Nfs,
        _ if is_of(&["cifs", "smb"]) => Client::Smb,
        _ if is_of(&["fuse"]) => Client::Fuse,
        _ => Client::Other,
    };
    Way {
        client,
        file_system,
        link: Link::from_value(case.at.get("link")).unwrap_or(Link::Unknown),
        server: text("server").and_then(|server| server.parse().ok()),
        interface: text("interface"),
        bits_per_second: case.int("link_bits_per_second"),
        mtu_bytes: case.int("mtu_bytes"),
        has_gateway: case.int("gateway").is_some_and(|gateway| gateway != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::server_of;
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
}
