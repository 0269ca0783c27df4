//! A network card that has one line for what it receives: where the ends of net's cases run towards an
//! agent beside the emulator.

use crate::namespace::Namespace;
use crate::plumb::prelude::*;
use crate::{Served, events, part, taker};

/// The agent's address: on the loopback of its namespace, to which the emulator takes the machine's
/// packets.
const ADDRESS: &str = "10.77.0.1";
const PORT: u16 = 7411;

/// Where the near end is measured.
const PLACES: [&str; 3] = ["free", "interrupt", "other"];

/// An agent in a network namespace, and the script that measures towards it.
pub fn agent(namespace: &Namespace) -> (Served, String) {
    namespace.ip(&["addr", "add", ADDRESS, "dev", "lo"]);
    let agent = Served::start(namespace, "agent", PORT, |dir| {
        let key = dir.join("key");
        let made = Command::new(PLUMB).args(["agent", "--new-key"]).arg(&key).output();
        assert!(made.unwrap().status.success());
        let line = format!("{PLUMB} agent --listen {ADDRESS}:{PORT} --key-file {}", key.display());
        line.split(' ').map(str::to_owned).collect()
    });
    let key = fs::read_to_string(agent.dir.path().join("key")).unwrap();
    let script = format!(
        "ip route add default via 10.0.2.2\n\
         umask 077; echo '{}' > /tmp/key\n\
         plumb run net.rtt --preset rehearsal --peer tcp://{ADDRESS}:{PORT} --key-file /tmp/key \
           --set net.rtt.placement={} --set net.rtt.far=peer --out /tmp/placed > /tmp/report 2>&1\n\
         echo \"placed=$?\"; cat /tmp/report\n\
         echo '[placed'; cat /tmp/placed; echo 'placed]'\n",
        key.trim(),
        PLACES.join(","),
    );
    (agent, script)
}

pub fn check(printed: &str) {
    assert!(printed.contains("placed=0\n"), "{printed}");
    let taker = taker(part(printed, "interrupts"));
    let events = events(printed, "placed");
    for place in PLACES {
        let at_place = |of: &&Value| of["case"]["placement"] == place;
        assert!(of(&events, "samples").iter().any(at_place), "{place}");
        let told = of(&events, "prediction").into_iter().find(at_place).unwrap();
        let near = &told["at"]["near_cpu"];
        match place {
            "free" => assert_eq!(told["at"]["near_cpus"], "0-1"),
            "interrupt" => assert_eq!(*near, taker),
            _ => assert_eq!(*near, 1 - taker),
        }
        let (series, name) = match place {
            "free" => ("net.rtt/peer".to_owned(), "planned_migrations"),
            _ => (format!("net.rtt/peer {place}"), "migrations"),
        };
        let round = of(&events, "round").into_iter().find(|of| of["series"] == *series);
        let round = round.expect("a round of it");
        assert!(round["environment"][name].is_number(), "{round}");
    }
}
