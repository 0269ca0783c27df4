//! A machine whose network card has one line for what it receives: where the ends of net's cases
//! run towards an agent beside the emulator.

use crate::guest::{self, CARD_UP, Machine};
use crate::plumb::prelude::*;
use crate::{Served, events, part, taker};

/// The agent's address: on the loopback of its namespace, to which the emulator takes the machine's
/// packets.
const ADDRESS: &str = "10.77.0.1";
const PORT: u16 = 7411;

/// An agent in a network namespace of its own, and its key.
fn agent() -> (Served, String) {
    let agent = Served::start("placed", Some(ADDRESS), PORT, |dir| {
        let (plumb, key) = (env!("CARGO_BIN_EXE_plumb"), dir.join("key"));
        let mut make = Command::new(plumb);
        let made = make.args(["agent", "--new-key"]).arg(&key).stdout(Stdio::null()).status();
        assert!(made.unwrap().success());
        let line = format!("{plumb} agent --listen {ADDRESS}:{PORT} --key-file {}", key.display());
        line.split(' ').map(str::to_owned).collect()
    });
    let key = fs::read_to_string(agent.dir.path().join("key")).unwrap();
    (agent, key)
}

#[test]
#[cfg_attr(
    not(target_arch = "x86_64"),
    ignore = "the machine is an x86-64 one, which another architecture's binary does not run on"
)]
fn cases_towards_a_peer_run_where_the_card_interrupts_or_elsewhere() {
    let (agent, key) = agent();
    let machine = Machine::with_card(&agent.namespace.0);
    let places = ["free", "interrupt", "other"];
    let script = format!(
        "{CARD_UP}ip route add default via 10.0.2.2\n\
         umask 077; echo '{}' > /tmp/key\n\
         plumb run net.rtt --preset rehearsal --peer tcp://{ADDRESS}:{PORT} --key-file /tmp/key \
           --set net.rtt.placement={} --set net.rtt.far=peer --out /tmp/record > /tmp/report 2>&1\n\
         echo \"run=$?\"; cat /tmp/report\n\
         for file in /proc/irq/*/effective_affinity_list; do echo \"$file $(cat $file)\"; done > /tmp/lines\n\
         echo '[interrupts'; cat /proc/interrupts /tmp/lines; echo 'interrupts]'\n\
         echo '[record'; cat /tmp/record; echo 'record]'\n",
        key.trim(),
        places.join(","),
    );
    let printed = guest::run(&machine, &script);
    assert!(printed.contains("run=0\n"), "{printed}");
    let taker = taker(part(&printed, "interrupts"));
    let events = events(&printed, "record");
    for place in places {
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
