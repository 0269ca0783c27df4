//! An OpenSSH server on a free port of loopback with keys of its own, and the `ssh` that plumb
//! finds: the system's, with a configuration that knows them.

use crate::lab::{Lab, wait_for};
use crate::plumb::prelude::*;
use std::net::{TcpListener, TcpStream};

/// A server.
pub struct Sshd {
    server: Program,
    pub port: u16,
}

impl Sshd {
    /// Starts one for whoever runs the test.
    pub fn start(lab: &Lab) -> Sshd {
        for key in ["host", "id", "stranger"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &lab.text(key)])
                .status();
            assert!(made.expect("scripts/test installs OpenSSH").success());
        }
        // Where root's server separates privileges.
        if metal::process::geteuid() == 0 {
            fs::create_dir_all("/run/sshd").unwrap();
        }
        fs::copy(lab.path("id.pub"), lab.path("authorized")).unwrap();
        let port = {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let server = [
            &format!("ListenAddress 127.0.0.1:{port}"),
            &format!("HostKey {}", lab.text("host")),
            &format!("AuthorizedKeysFile {}", lab.text("authorized")),
            // bash reads the start files of the account: an unfinished `pyenv rehash` there, which a
            // killed session leaves, holds each later session for a minute.
            &format!("SetEnv HOME={}", lab.text("")),
            "PermitRootLogin prohibit-password",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "UsePAM no",
            "StrictModes no",
            "PidFile none",
            "MaxStartups 100",
        ];
        fs::write(lab.path("sshd_config"), server.join("\n") + "\n").unwrap();
        let host_key = fs::read_to_string(lab.path("host.pub")).unwrap();
        fs::write(lab.path("known"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        lab.ssh("ssh", "id", "known");
        let server = lab.start(
            lab.other("/usr/sbin/sshd").args(["-D", "-e", "-f"]).arg(lab.path("sshd_config")),
        );
        wait_for("the ssh server", || TcpStream::connect(("127.0.0.1", port)).ok());
        Sshd { server, port }
    }
}

impl Sshd {
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }
}

impl Lab {
    /// Makes a directory with an `ssh` that has this key and knows these hosts.
    pub fn ssh(&self, dir: &str, key: &str, known: &str) {
        let options = [
            format!("IdentityFile={}", self.text(key)),
            "IdentitiesOnly=yes".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            format!("UserKnownHostsFile={}", self.text(known)),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
        ]
        .map(|option| format!("-o{option}"));
        let script =
            format!("#!/bin/sh\nexec /usr/bin/ssh -F /dev/null {} \"$@\"\n", options.join(" "));
        fs::create_dir(self.path(dir)).unwrap();
        let ssh = self.path(dir).join("ssh");
        write_script(&ssh, script);
    }

    /// A command that finds that `ssh` first.
    pub fn with_ssh(&self, dir: &str, args: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = self.other(PLUMB);
        command
            .env("PATH", format!("{}:{path}", self.text(dir)))
            .env_remove("SSH_AUTH_SOCK")
            .args(args);
        command
    }
}
