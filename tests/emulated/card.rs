//! A machine with a network card, which reads files of two servers beside its emulator. It is started
//! once for both.

use crate::guest::{self, CARD_UP, Machine};
use crate::namespace::Namespace;
use crate::{nfs, smb};

#[test]
#[cfg_attr(
    not(target_arch = "x86_64"),
    ignore = "the machine is an x86-64 one, which another architecture's binary does not run on"
)]
fn a_kernel_counts_what_it_reads_of_servers() {
    let namespace = Namespace::new(format!("plumb-card-{}", std::process::id()));
    let (nfs, smb) = (nfs::server(&namespace), smb::server(&namespace));
    let script = [CARD_UP, nfs::SCRIPT, smb::SCRIPT].concat();
    let printed = guest::run(&Machine::with_card(&namespace.0), &script);
    nfs::check(&printed, &nfs);
    smb::check(&printed, &smb);
}
