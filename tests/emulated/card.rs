//! A machine with a network card, which reads files of two servers and measures towards an agent, all
//! of them beside its emulator. It is started once for the three.

use crate::guest::{self, CARD_UP, Machine};
use crate::namespace::Namespace;
use crate::{nfs, placed, smb};

const INTERRUPTS: &str = "
for file in /proc/irq/*/effective_affinity_list; do echo \"$file $(cat $file)\"; done > /tmp/lines
echo '[interrupts'; cat /proc/interrupts /tmp/lines; echo 'interrupts]'
";

#[test]
#[cfg_attr(
    not(target_arch = "x86_64"),
    ignore = "the machine is an x86-64 one, which another architecture's binary does not run on"
)]
fn a_kernel_counts_what_it_reads_of_servers_and_cases_run_where_the_card_interrupts_or_elsewhere() {
    let namespace = Namespace::new(format!("plumb-card-{}", std::process::id()));
    let (nfs, smb) = (nfs::server(&namespace), smb::server(&namespace));
    let (_agent, measures) = placed::agent(&namespace);
    let script = [CARD_UP, nfs::SCRIPT, smb::SCRIPT, &measures, INTERRUPTS].concat();
    let printed = guest::run(&Machine::with_card(&namespace.0), &script);
    nfs::check(&printed, &nfs);
    smb::check(&printed, &smb);
    placed::check(&printed);
}
