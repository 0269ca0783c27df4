//! OpenSSH servers on the hosts of a network, with throw-away keys, and the `ssh` that plumb finds:
//! the system's, with a configuration that knows them.

use crate::namespace::output_of;
use crate::network::{Network, Special, address, name};
use crate::plumb::prelude::*;

const PORT: u16 = 22;

/// A network whose hosts can be logged into from host 0.
pub struct Servers {
    pub network: Network,
    servers: Vec<Child>,
}

impl Servers {
    /// A server on each of so many hosts.
    pub fn start(hosts: usize) -> Servers {
        let network = Network::new(hosts);
        let text = |name: &str| network.here.path(name).to_str().unwrap().to_owned();
        for key in ["host", "id", "stranger"] {
            let made = ["-q", "-t", "ed25519", "-N", "", "-f", &text(key)];
            output_of(Command::new("ssh-keygen").args(made));
        }
        // Where the server separates privileges.
        fs::create_dir_all("/run/sshd").unwrap();
        fs::copy(text("id.pub"), text("authorized")).unwrap();
        for host in network.hosts() {
            let server = [
                format!("ListenAddress {}:{PORT}", address(host)),
                format!("HostKey {}", text("host")),
                format!("AuthorizedKeysFile {}/authorized", text(&name(host))),
                // The host's own programs go before the system's, its files have a place, and no start
                // file of the account holds a session.
                format!("SetEnv HOME={0} PATH={0}:/usr/bin:/bin TMPDIR={0}/tmp", text(&name(host))),
                "PermitRootLogin prohibit-password".to_owned(),
                "PasswordAuthentication no".to_owned(),
                "KbdInteractiveAuthentication no".to_owned(),
                "UsePAM no".to_owned(),
                "StrictModes no".to_owned(),
                "PidFile none".to_owned(),
                "MaxStartups 100".to_owned(),
            ];
            network.here.make_dir(&name(host));
            network.here.make_dir(&format!("{}/tmp", name(host)));
            fs::write(network.here.path(&format!("{}/sshd", name(host))), server.join("\n") + "\n")
                .unwrap();
            fs::copy(text("authorized"), text(&format!("{}/authorized", name(host)))).unwrap();
        }
        let mut servers = Servers { network, servers: Vec::new() };
        servers.client();
        for host in servers.network.hosts() {
            let configuration = servers.network.here.path(&format!("{}/sshd", name(host)));
            let program = ["/usr/sbin/sshd", "-D", "-e", "-f", configuration.to_str().unwrap()];
            servers.servers.push(servers.network.boot(host, &Special::default(), &program));
        }
        wait_for("the ssh servers", || {
            let listens = |host| !servers.listening(host).is_empty();
            servers.network.hosts().all(listens).then_some(())
        });
        servers
    }

    fn listening(&self, host: usize) -> String {
        output_of(self.network.command(host, "ss").args(["-Hltn", &format!("sport = :{PORT}")]))
    }

    /// The `ssh` of host 0.
    fn client(&self) {
        let here = &self.network.here;
        let host_key = fs::read_to_string(here.path("host.pub")).unwrap();
        let known: String =
            self.network.hosts().map(|host| format!("{} {host_key}", name(host))).collect();
        fs::write(here.path("known"), known).unwrap();
        let options = [
            format!("IdentityFile={}", here.path("id").display()),
            "IdentitiesOnly=yes".to_owned(),
            "StrictHostKeyChecking=yes".to_owned(),
            format!("UserKnownHostsFile={}", here.path("known").display()),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
        ]
        .map(|option| format!("-o{option}"));
        let script =
            format!("#!/bin/sh\nexec /usr/bin/ssh -F /dev/null {} \"$@\"\n", options.join(" "));
        let dir = here.make_dir("c0-bin");
        write_script(&Path::new(&dir).join("ssh"), script);
    }

    /// A program on host 0 that finds that `ssh` first.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.network.command(0, program);
        let path = std::env::var("PATH").unwrap();
        let own = self.network.here.path("c0-bin");
        command.env("PATH", format!("{}:{path}", own.display())).env_remove("SSH_AUTH_SOCK");
        command
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
