//! An OpenSSH server on a free port of loopback with keys of its own, and the `ssh` that a program
//! finds: the system's, with a configuration that knows them.

use crate::plumb::prelude::*;
use std::net::{TcpListener, TcpStream};

pub struct Sshd {
    server: Program,
    pub port: u16,
}

impl Sshd {
    /// Starts one for whoever runs the test, at some addresses, with more variables for its sessions. The
    /// directory `ssh` has the client.
    pub fn start(here: &Here, addresses: &[&str], variables: &str) -> Sshd {
        for key in ["host", "id", "stranger"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(here.path(key))
                .status();
            assert!(made.expect("scripts/test installs OpenSSH").success());
        }
        // Where root's server separates privileges.
        if metal::process::geteuid() == 0 {
            fs::create_dir_all("/run/sshd").unwrap();
        }
        fs::copy(here.path("id.pub"), here.path("authorized")).unwrap();
        let port = {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let listen = addresses.iter().map(|address| format!("ListenAddress {address}:{port}"));
        let dir = here.path("").display().to_string();
        let server = [
            format!("HostKey {dir}host"),
            format!("AuthorizedKeysFile {dir}authorized"),
            // bash reads the start files of the account: an unfinished `pyenv rehash` there, which a
            // killed session leaves, holds each later session for a minute.
            format!("SetEnv HOME={dir} {variables}"),
            "PermitRootLogin prohibit-password\nPasswordAuthentication no".to_owned(),
            "KbdInteractiveAuthentication no\nUsePAM no\nStrictModes no".to_owned(),
            "PidFile none\nMaxStartups 100\n".to_owned(),
        ];
        let server: Vec<String> = listen.chain(server).collect();
        fs::write(here.path("sshd_config"), server.join("\n")).unwrap();
        let host_key = fs::read_to_string(here.path("host.pub")).unwrap();
        let known = addresses.iter().map(|address| format!("[{address}]:{port} {host_key}"));
        fs::write(here.path("known"), known.collect::<String>()).unwrap();
        here.ssh("ssh", "id", "known", "");
        let server = here.start(
            here.other("/usr/sbin/sshd").args(["-D", "-e", "-f"]).arg(here.path("sshd_config")),
        );
        wait_for("the ssh server", || TcpStream::connect(("127.0.0.1", port)).ok());
        Sshd { server, port }
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }
}

impl Here {
    /// Makes a directory with an `ssh` that has this key, knows these hosts, and has more options.
    pub fn ssh(&self, dir: &str, key: &str, known: &str, more: &str) {
        let script = format!(
            "#!/bin/sh\nexec /usr/bin/ssh -F /dev/null -oIdentityFile={} -oIdentitiesOnly=yes \
             -oStrictHostKeyChecking=yes -oUserKnownHostsFile={} -oGlobalKnownHostsFile=/dev/null \
             {more} \"$@\"\n",
            self.path(key).display(),
            self.path(known).display()
        );
        fs::create_dir_all(self.path(dir)).unwrap();
        write_script(&self.path(dir).join("ssh"), script);
    }

    /// A program that finds that `ssh` first.
    pub fn with_ssh(&self, dir: &str, program: &str, args: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = self.other(program);
        command
            .env("PATH", format!("{}:{path}", self.path(dir).display()))
            .env_remove("SSH_AUTH_SOCK")
            .env_remove("SSH_CONNECTION")
            .args(args);
        command
    }
}
