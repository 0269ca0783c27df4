//! The memory of a round: on one node and in the pages that were asked for, both verified.

use anyhow::{Context, Result, bail, ensure};
use host::numa::{memory_node, room_now};
use metal::memory::{Mapping, Pages};
use metal::place::{current_node, online_nodes};
use record::quantity::render;
use record::unit::Unit;
use std::collections::BTreeMap;
use std::io;

/// Share of a mapping that huge pages hold at least for it to count as one of huge pages.
pub(super) const HUGE_SHARE_LEAST: f64 = 0.95;

/// Memory that was touched and verified.
pub struct Placed {
    pub mapping: Mapping,
    pub huge_share: f64,
    /// Node that the memory was asked to be on; it is, unless a note says that this could not be
    /// verified.
    pub node: usize,
    /// What could not be asked of the kernel, and pages of another kind than wished.
    pub notes: Vec<String>,
}

/// The kernel's setting of transparent huge pages; the bracketed word holds.
const THP_SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Huge pages were asked for and not given: the system has none, or the free memory is in small
/// pieces.
#[derive(Debug, thiserror::Error)]
#[error("only {share:.3} of the memory is in huge pages, as requested ({how}); {way_out}")]
pub struct TooFewHuge {
    pub share: f64,
    /// Bytes of the memory that were in huge pages: so much of them there was.
    pub huge_bytes: u64,
    how: String,
    way_out: String,
}

impl TooFewHuge {
    /// What was found of `bytes` of memory, and `how` it was tried to gather more.
    pub fn new(share: f64, bytes: u64, how: String) -> TooFewHuge {
        TooFewHuge {
            share,
            huge_bytes: (share * bytes as f64).round() as u64,
            how,
            way_out: more_huge(std::fs::read_to_string(THP_SETTING).ok().as_deref()),
        }
    }
}

/// What gives more huge pages under the kernel's setting of them.
fn more_huge(setting: Option<&str>) -> String {
    match setting {
        Some(setting) if setting.contains("[never]") => {
            format!("the kernel setting disables them: echo madvise > {THP_SETTING}")
        }
        _ => "compact free memory: echo 1 > /proc/sys/vm/compact_memory".to_owned(),
    }
}

/// The node that memory near the calling thread comes from. A note says where that is not the
/// thread's own, because it has no memory or this process may not use it.
pub fn near_node(notes: &mut Vec<String>) -> usize {
    let own = current_node();
    let node = if online_nodes() > 1 { memory_node(own) } else { own };
    if node != own {
        notes.push(format!(
            "node {own} of this CPU has no memory that this process may use: the memory is on node \
             {node}, the nearest that has some"
        ));
    }
    node
}

/// Maps `bytes`, has them placed on the node nearest to the CPU that the caller is pinned to
/// ([`near_node`]), touches and verifies them. With one node nothing is bound or asked. Errors: no such memory, pages of another
/// kind ([`TooFewHuge`]), or pages on another node.
pub fn place(bytes: u64, pages: Pages) -> Result<Placed> {
    near(|node| place_on(bytes, pages, node))
}

/// Does it on the nearest node, whose note the memory gets.
fn near(place: impl FnOnce(usize) -> Result<Placed>) -> Result<Placed> {
    let mut notes = Vec::new();
    let mut placed = place(near_node(&mut notes))?;
    placed.notes.splice(0..0, notes);
    Ok(placed)
}

/// Does what [`place`] does, in huge pages where there are enough of them and else in base pages.
pub fn place_near(bytes: u64) -> Result<Placed> {
    near(|node| place_huge_or_base(bytes, node))
}

/// As [`place`], on a node of the caller's choice. Errors: as [`place`].
pub fn place_on(bytes: u64, pages: Pages, node: usize) -> Result<Placed> {
    if online_nodes() > 1 {
        has_room(node, room_now(node), bytes)?;
    }
    let mut mapping = Mapping::new(usize::try_from(bytes)?, pages).map_err(|error| {
        let way_out = match error.kind() {
            io::ErrorKind::OutOfMemory => {
                " (more than a limit on the address space, `ulimit -v`, or on what the kernel \
                 promises, vm.overcommit_memory, leaves)"
            }
            _ => "",
        };
        let size = render(bytes as f64, Unit::B);
        anyhow::Error::new(error).context(format!("mapping {size}{way_out}"))
    })?;
    let mut notes = Vec::new();
    bind(&mapping, node, &mut notes)?;
    mapping.touch();
    let huge_share = verify_pages(&mapping, None)?;
    if let Err(error) = verify_node(&mapping, node, &mut notes) {
        // Where binding was refused, that is why.
        return Err(if notes.is_empty() { error } else { error.context(notes.join("; ")) });
    }
    Ok(Placed { mapping, huge_share, node, notes })
}

/// As [`place_on`], in huge pages where there are enough of them and else in base pages, which a
/// note says. Errors: as [`place`], but for the kind of pages.
pub fn place_huge_or_base(bytes: u64, node: usize) -> Result<Placed> {
    match place_on(bytes, Pages::Huge, node) {
        Err(error) if error.is::<TooFewHuge>() || is_without_huge(&error) => {
            let mut placed = place_on(bytes, Pages::Base, node)?;
            placed.notes.push(format!("on base pages: {error:#}"));
            Ok(placed)
        }
        placed => placed,
    }
}

/// Has the kernel take the pages of memory that is touched next from `node`, and from no other.
/// With one node there is nothing to bind; if a sandbox forbids it, a note says so, and only
/// [`verify_node`] shows where the pages are. Errors: the kernel could not for another reason than
/// that it may not: no such node.
pub fn bind(mapping: &Mapping, node: usize, notes: &mut Vec<String>) -> Result<()> {
    if online_nodes() <= 1 {
        return Ok(());
    }
    bound(mapping.bind(node), node, notes)
}

fn bound(answer: io::Result<()>, node: usize, notes: &mut Vec<String>) -> Result<()> {
    allowed(answer, "binding memory to a node", notes)
        .with_context(|| format!("binding memory to node {node}"))?;
    Ok(())
}

/// Verifies that all sampled pages of touched memory are on `node`: nothing to ask with one node.
/// Errors: some are elsewhere, or the kernel could not answer for another reason than that it may
/// not.
pub fn verify_node(mapping: &Mapping, node: usize, notes: &mut Vec<String>) -> Result<()> {
    if online_nodes() <= 1 {
        return Ok(());
    }
    let nodes = allowed(mapping.nodes(), "asking for the node of a page", notes);
    match nodes.context("asking for the nodes of the memory")? {
        Some(nodes) => local(&nodes, node),
        None => Ok(()),
    }
}

/// Demands that a node's memory suffices: what is bound to a node that is full ends processes,
/// whatever other nodes have. Errors: it does not ([`is_without_room`]).
fn has_room(node: usize, room: Option<u64>, bytes: u64) -> Result<()> {
    match room {
        Some(room) if room < bytes => {
            let full = io::Error::from(io::ErrorKind::OutOfMemory);
            Err(anyhow::Error::new(full).context(format!(
                "node {node} has {} of free or file-backed memory, but {} are needed on it",
                render(room as f64, Unit::B),
                render(bytes as f64, Unit::B)
            )))
        }
        _ => Ok(()),
    }
}

/// Whether the kernel promised no memory of this size: a limit on the address space, or no room.
pub fn is_without_room(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<io::Error>();
    refused.is_some_and(|error| error.kind() == io::ErrorKind::OutOfMemory)
}

/// Whether a kernel without transparent huge pages refused them.
fn is_without_huge(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<io::Error>();
    refused.is_some_and(|error| error.kind() == io::ErrorKind::InvalidInput)
}

/// What was answered; `None` with a note where the kernel lacks or a sandbox forbids the call.
fn allowed<T>(answer: io::Result<T>, what: &str, notes: &mut Vec<String>) -> io::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
            ) =>
        {
            notes.push(format!("{what} is not possible here: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Demands that all pages are on `node`. Errors: some are elsewhere, or none is anywhere.
fn local(nodes: &BTreeMap<usize, usize>, node: usize) -> Result<()> {
    let all: usize = nodes.values().sum();
    ensure!(all > 0, "no page of the memory is on any node");
    let elsewhere = nodes.iter().find(|(other, _)| **other != node);
    if let Some((other, pages)) = elsewhere {
        bail!(
            "the memory was bound to node {node}, but {pages} of {all} sampled pages are on node \
             {other}"
        );
    }
    Ok(())
}

/// The share of huge pages, verified to be what was asked for. Where there are too few of them
/// after the first touch, the kernel is asked to gather them, unless `as_they_came` says for what
/// they are to stay as they are. Errors: some base pages are huge, or too few huge ones are
/// ([`TooFewHuge`]).
pub fn verify_pages(mapping: &Mapping, as_they_came: Option<&str>) -> Result<f64> {
    let share = || mapping.huge_share().context("reading the pages of the mapping");
    let found = share()?;
    match (mapping.pages(), as_they_came) {
        (Pages::Base, _) => {
            ensure!(found == 0.0, "base pages were requested, but {found:.3} of them are huge");
            Ok(found)
        }
        (Pages::Huge, _) if found >= HUGE_SHARE_LEAST => Ok(found),
        (Pages::Huge, Some(why)) => {
            Err(TooFewHuge::new(found, mapping.bytes() as u64, why.to_owned()).into())
        }
        (Pages::Huge, None) => {
            // Memory was fragmented.
            let collapsed = mapping.collapse();
            let gathered = share()?;
            if gathered < HUGE_SHARE_LEAST {
                let how = match collapsed {
                    Ok(()) => "gathered as far as the kernel could".to_owned(),
                    Err(error) => format!("gathering them failed: {error}"),
                };
                return Err(TooFewHuge::new(gathered, mapping.bytes() as u64, how).into());
            }
            Ok(gathered)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        allowed, bound, has_room, is_without_room, local, more_huge, place, place_huge_or_base,
        place_on,
    };
    use crate::experiment::fixtures::on_a_thread;
    use metal::memory::Pages;
    use std::collections::BTreeMap;
    use std::io;

    #[test]
    fn pages_on_another_node_fail_the_round_and_name_both() {
        local(&BTreeMap::from([(1, 4096)]), 1).expect("all local");
        let error = local(&BTreeMap::from([(1, 4000), (3, 96)]), 1).expect_err("some are not");
        let text = error.to_string();
        assert!(text.contains("node 1") && text.contains("node 3"), "{text}");
        assert!(text.contains("96 of 4096"), "{text}");
        local(&BTreeMap::from([(0, 7)]), 1).expect_err("all elsewhere");
        local(&BTreeMap::new(), 0).expect_err("nowhere");
    }

    #[test]
    fn only_what_is_absent_or_forbidden_is_a_note() {
        let answer = |code| io::Result::<()>::Err(io::Error::from_raw_os_error(code));
        let mut notes = Vec::new();
        for code in [libc_errors::ENOSYS, libc_errors::EPERM] {
            assert_eq!(allowed(answer(code), "asking", &mut notes).expect("a note"), None);
        }
        assert_eq!(notes.len(), 2);
        allowed(answer(libc_errors::EINVAL), "asking", &mut notes).expect_err("no such node");
        assert_eq!(allowed(Ok(3), "asking", &mut notes).expect("an answer"), Some(3));
        assert_eq!(notes.len(), 2);
    }

    #[test]
    fn a_forbidden_binding_is_a_note_and_one_to_no_node_an_error() {
        let answer = |code| Err(io::Error::from_raw_os_error(code));
        let mut notes = Vec::new();
        bound(answer(libc_errors::EPERM), 1, &mut notes).expect("goes on");
        assert!(notes[0].starts_with("binding memory"), "{notes:?}");
        let error = bound(answer(libc_errors::EINVAL), 7, &mut notes).expect_err("no node 7");
        assert!(error.to_string().contains("node 7"), "{error}");
    }

    #[test]
    fn where_huge_pages_are_off_the_switch_is_named() {
        let off = more_huge(Some("always madvise [never]\n"));
        assert!(off.contains("transparent_hugepage/enabled"), "{off}");
        for on in [Some("always [madvise] never\n"), None] {
            assert!(more_huge(on).contains("compact_memory"));
        }
    }

    /// Numbers of Linux's errors, the same on both architectures.
    mod libc_errors {
        pub const EPERM: i32 = 1;
        pub const EINVAL: i32 = 22;
        pub const ENOSYS: i32 = 38;
    }

    #[test]
    fn a_node_that_is_full_is_no_room() {
        has_room(1, Some(4096), 4096).expect("just enough");
        has_room(1, None, 4096).expect("nobody can tell");
        let error = has_room(1, Some(1 << 20), 3 << 20).expect_err("too little");
        assert!(is_without_room(&error));
        let text = error.to_string();
        assert!(text.contains("node 1 has 1 MiB") && text.contains("3 MiB"), "{text}");
    }

    #[test]
    fn huge_pages_are_a_wish_or_base_pages_with_a_note() {
        let node = metal::place::current_node();
        let placed = place_huge_or_base(4 << 20, node).expect("4 MiB of some pages");
        let is_huge = placed.mapping.pages() == Pages::Huge;
        assert_eq!(placed.huge_share > 0.9, is_huge);
        let told = placed.notes.iter().any(|note| note.starts_with("on base pages"));
        assert_ne!(told, is_huge, "{:?}", placed.notes);
        assert_eq!(place_on(4096, Pages::Base, node).expect("a page").node, node);
    }

    #[test]
    fn memory_is_placed_where_the_thread_is() {
        let placed = on_a_thread(|| {
            let cpu = metal::place::allowed().expect("CPUs")[0];
            metal::place::pin(cpu).expect("allowed");
            let placed = place(1 << 20, Pages::Base).expect("a MiB");
            assert_eq!(placed.node, metal::place::current_node());
            placed
        });
        assert_eq!(placed.huge_share, 0.0);
        assert!(placed.mapping.bytes() >= 1 << 20);
        if let Ok(nodes) = placed.mapping.nodes() {
            assert_eq!(nodes.keys().copied().collect::<Vec<_>>(), [placed.node]);
        }
    }
}
