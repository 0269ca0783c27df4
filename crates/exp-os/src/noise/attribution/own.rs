//! The threads of plumb itself: the session, this worker, and what they started.

use record::order::{Gather, InOrder};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use host::Root;

/// A thread of plumb beside the traced ones, and what it did in the window.
#[derive(Clone, Debug, PartialEq)]
pub struct PlumbThread {
    /// `plumb session`, `plumb worker` or `plumb child`, with the thread's own name where it has
    /// another. As the causes of gaps name it.
    pub name: String,
    /// Times it was given a CPU; `None` where the kernel keeps no statistics.
    pub runs: Option<u64>,
    /// Time on a CPU, in ns, as far as the kernel has booked it.
    pub time_ns: Option<u64>,
}

/// Threads of plumb by number.
pub(super) type Names = BTreeMap<u32, Named>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub pid: u32,
    pub name: String,
}

/// What the scheduler counted of threads: time on a CPU in ns, and times they were given one.
pub(super) type Runs = BTreeMap<u32, (u64, u64)>;

/// All threads of the session's process and of everything that it started. Where the parent of this
/// process is another program, there is no session, and this process is the root.
pub(super) fn names(root: &Root) -> Names {
    let Some(me) = root.link("proc/self").and_then(|pid| pid.parse::<u32>().ok()) else {
        return Names::new();
    };
    let executable = |pid: u32| root.link(&format!("proc/{pid}/exe"));
    let session = parent_of(root, me)
        .filter(|parent| executable(*parent).is_some_and(|theirs| Some(theirs) == executable(me)));
    let mut names = Names::new();
    for (pid, parent) in family(root, session.unwrap_or(me)) {
        let role = match pid {
            _ if Some(pid) == session => "plumb session",
            _ if parent.is_some() && parent == session || pid == me => "plumb worker",
            _ => "plumb child",
        };
        for tid in threads(root, pid) {
            let called = root.line(&format!("proc/{pid}/task/{tid}/comm"));
            let name = match called.filter(|called| called != "plumb") {
                Some(called) => format!("{role} ({called})"),
                None => role.to_owned(),
            };
            names.insert(tid, Named { pid, name });
        }
    }
    names
}

/// `top` and all that it started, directly or not, each with its parent among them. The kernel
/// lists children only where it was built to; elsewhere every process of the machine is asked for
/// its parent.
fn family(root: &Root, top: u32) -> BTreeMap<u32, Option<u32>> {
    let lists_children = root.exists(&format!("proc/{top}/task/{top}/children"));
    let all = if lists_children { Vec::new() } else { numbered(root, "proc") };
    let parents: Vec<(u32, Option<u32>)> =
        all.into_iter().map(|pid| (pid, parent_of(root, pid))).collect();
    let mut family: BTreeMap<_, _> = [(top, None)].gather();
    let mut open = vec![top];
    while let Some(pid) = open.pop() {
        let mut children: Vec<u32> = Vec::new();
        for tid in threads(root, pid).into_iter().filter(|_| lists_children) {
            let list = root.words(&format!("proc/{pid}/task/{tid}/children"));
            children.extend(list.iter().filter_map(|child| child.parse::<u32>().ok()));
        }
        let found = parents.iter().filter(|(_, parent)| *parent == Some(pid));
        children.extend(found.map(|(child, _)| *child));
        for child in children {
            if let Entry::Vacant(place) = family.entry(child) {
                place.insert(Some(pid));
                open.push(child);
            }
        }
    }
    family
}

fn numbered(root: &Root, directory: &str) -> Vec<u32> {
    let numbers = root.numbered(directory, "").into_iter();
    numbers.filter_map(|number| u32::try_from(number).ok()).collect()
}

fn threads(root: &Root, pid: u32) -> Vec<u32> {
    numbered(root, &format!("proc/{pid}/task"))
}

fn parent_of(root: &Root, pid: u32) -> Option<u32> {
    let stat = root.read(&format!("proc/{pid}/stat"))?;
    // `123 (name) S 1 …`: the name may hold spaces and brackets.
    let after = stat.rsplit_once(')')?.1;
    after.split_whitespace().nth(1)?.parse().ok()
}

pub(super) fn runs(root: &Root, names: &Names) -> Runs {
    let read = |(tid, named): (&u32, &Named)| {
        let thread = format!("proc/{}/task/{tid}", named.pid);
        let [time_ns, _, runs] = super::counters::schedstat(root, &thread)?;
        Some((*tid, (time_ns, runs)))
    };
    names.iter().filter_map(read).gather()
}

/// What the threads that do not trace ran between two readings, those that ran most first.
pub(super) fn plumb(
    names: &Names,
    before: &Runs,
    after: &Runs,
    traced: &[u32],
) -> Vec<PlumbThread> {
    let others = names.iter().filter(|(tid, _)| !traced.contains(tid));
    let others = others.map(|(tid, named)| {
        let both = after.get(tid).zip(before.get(tid));
        PlumbThread {
            name: named.name.clone(),
            runs: both.and_then(|(after, before)| after.1.checked_sub(before.1)),
            time_ns: both.and_then(|(after, before)| after.0.checked_sub(before.0)),
        }
    });
    let mut threads: Vec<PlumbThread> = others.collect();
    threads.order_by_key(|thread| std::cmp::Reverse((thread.runs, thread.time_ns)));
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 12 (this one) and 11 were started by 10, 13 by 12; 14 is a stranger.
    const TREE: &str = "== proc/self -> 12\n\
        == proc/10/exe -> /usr/bin/plumb\n== proc/12/exe -> /usr/bin/plumb\n\
        == proc/10/stat\n10 (plumb) S 1 10\n== proc/11/stat\n11 (a) b) S 10 11\n\
        == proc/12/stat\n12 (plumb) R 10 12\n== proc/13/stat\n13 (plumb) R 12 12\n\
        == proc/14/stat\n14 (bash) S 1 14\n== proc/14/task/14/comm\nbash\n\
        == proc/10/task/10/comm\nplumb\n== proc/10/task/16/comm\nwriter\n\
        == proc/11/task/11/comm\nplumb\n== proc/12/task/12/comm\nplumb\n\
        == proc/13/task/13/comm\nplumb\n\
        == proc/10/task/10/schedstat\n1000 5 7\n== proc/10/task/16/schedstat\n0 0 0\n\
        == proc/12/task/12/schedstat\n9 9 9\n";
    /// If the kernel lists children, no other source of parents is used: 15 is not asked.
    const LISTS: &str = "== proc/10/task/10/children\n11 \n== proc/10/task/16/children\n12 \n\
        == proc/12/task/12/children\n13 \n== proc/15/stat\n15 (plumb) S 10 10\n\
        == proc/15/task/15/comm\nplumb\n";

    #[test]
    fn threads_of_the_session_and_of_what_it_started_are_plumbs() {
        let all = [
            (10, "plumb session"),
            (11, "plumb worker"),
            (12, "plumb worker"),
            (13, "plumb child"),
            (16, "plumb session (writer)"),
        ];
        let stranger = TREE.replace("proc/10/exe -> /usr/bin/plumb", "proc/10/exe -> /bin/bash");
        for (tree, expected) in [
            (TREE, &all[..]),
            (&format!("{TREE}{LISTS}"), &all),
            // Another program is no session.
            (&stranger, &[(12, "plumb worker"), (13, "plumb child")]),
        ] {
            let names = names(&Root::tree(tree));
            let told: Vec<(u32, &str)> =
                names.iter().map(|(tid, named)| (*tid, &*named.name)).collect();
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn what_the_session_ran_is_counted_and_the_traced_thread_is_not() {
        let before = Root::tree(TREE);
        let names = names(&before);
        let after = Root::tree(&TREE.replace("1000 5 7", "4000 5 9"));
        let threads = plumb(&names, &runs(&before, &names), &runs(&after, &names), &[12]);
        assert_eq!(threads.len(), 4);
        assert_eq!(threads[0].name, "plumb session");
        assert_eq!((threads[0].runs, threads[0].time_ns), (Some(2), Some(3000)));
        // No statistics, no figure.
        assert!(threads[1..].iter().all(|thread| thread.runs.is_none()));
    }
}
