use std::collections::HashSet;

use super::*;

const SMAPS: &str = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                4096 kB
AnonHugePages:      2048 kB
Private_Hugetlb:       0 kB
VmFlags: rd wr mr mw me ac sd hg
7f0000400000-7f0000401000 ---p 00000000 00:00 0
Rss:                1000 kB
AnonHugePages:      1000 kB
7f0000600000-7f0000a00000 rw-p 00000000 00:0f 12 /anon_hugepage (deleted)
Rss:                   0 kB
AnonHugePages:         0 kB
Private_Hugetlb:    4096 kB
7f0000a00000-7f0000b00000 rw-p 00000000 00:00 0
Rss:                   0 kB
";

#[test]
fn shares_are_read_from_the_areas_of_the_mapping_alone() {
    let share = |from, to| held_in(SMAPS, from, to).map(Held::huge_share);
    assert_eq!(share(0x7f0000000000, 0x7f0000400000), Some(0.5));
    assert_eq!(share(0x7f0000600000, 0x7f0000a00000), Some(1.0));
    assert_eq!(share(0x7f0000a00000, 0x7f0000b00000), Some(0.0));
    assert_eq!(share(0x7f0000c00000, 0x7f0000d00000), None);
    // 2 of 4 MiB transparent, 4 of hugetlbfs, 1000 of 1000 KiB between them.
    let all = share(0x7f0000000000, 0x7f0000b00000).unwrap();
    assert_eq!(all, (2048.0 + 1000.0 + 4096.0) / (4096.0 + 1000.0 + 4096.0));
}

#[test]
fn a_mapping_is_aligned_rounded_and_writable_to_its_end() {
    for (pages, unit) in [(Pages::Base, base_page_bytes()), (Pages::Huge, huge_page_bytes())] {
        let Ok(mut mapping) = Mapping::new(unit + 1, pages) else {
            assert_eq!(pages, Pages::Huge, "base pages are always there");
            continue;
        };
        assert_eq!(mapping.bytes(), 2 * unit);
        assert_eq!(mapping.page_bytes(), unit);
        assert_eq!(mapping.as_ptr() as usize % huge_page_bytes(), 0);
        let last = mapping.bytes() - 1;
        mapping.as_mut_slice()[last] = 7;
        assert_eq!(mapping.as_slice()[last], 7);
    }
    assert!(Mapping::new(0, Pages::Base).is_err());
    assert!(Mapping::new(usize::MAX, Pages::Base).is_err());
    assert!(Mapping::new(usize::MAX / 4, Pages::Huge).is_err());
}

#[test]
fn touched_memory_has_no_zero_and_no_repetition() {
    let mut mapping = Mapping::new(64 * 1024, Pages::Base).unwrap();
    assert_eq!(mapping.huge_share().unwrap(), 0.0);
    mapping.touch();
    let words = mapping.words();
    assert_eq!(words.len() * 8, mapping.bytes());
    assert!(words.iter().all(|&word| word != 0));
    assert_eq!(words.iter().collect::<HashSet<_>>().len(), words.len());
}

#[test]
fn base_pages_are_base_pages() {
    let mut mapping = Mapping::new(2 * huge_page_bytes(), Pages::Base).unwrap();
    mapping.touch();
    assert_eq!(mapping.huge_share().unwrap(), 0.0);
    assert!(mapping.collapse().is_err());
}

#[test]
fn huge_pages_are_found_where_the_kernel_gives_them() {
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let Ok(mut mapping) = Mapping::new(2 * huge_page_bytes(), Pages::Huge) else {
        assert!(enabled.is_err(), "a kernel with huge pages gives a mapping");
        return skips::part("kernel", "huge pages");
    };
    mapping.touch();
    // Memory may be fragmented: what smaps says is then what collapse changes.
    let before = mapping.huge_share().unwrap();
    let collapsed = mapping.collapse();
    let after = mapping.huge_share().unwrap();
    assert!((0.0..=1.0).contains(&before) && after >= before);
    if collapsed.is_ok() {
        assert_eq!(after, 1.0);
    }
    assert!(mapping.words().iter().all(|&word| word != 0));
}

#[test]
fn neighbours_do_not_merge() {
    let mappings: Vec<Mapping> = (0..4)
        .map(|_| {
            let mut mapping = Mapping::new(base_page_bytes(), Pages::Base).unwrap();
            mapping.touch();
            mapping
        })
        .collect();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    for mapping in &mappings {
        let from = mapping.as_ptr() as usize;
        let held = held_in(&smaps, from, from + mapping.bytes()).unwrap();
        assert_eq!(held.resident as usize * 1024, base_page_bytes());
    }
}

#[test]
fn a_dropped_mapping_is_gone_with_its_guards() {
    let mapping = Mapping::new(1 << 26, Pages::Base).unwrap();
    let guard = mapping.as_ptr() as usize - base_page_bytes();
    let middle = mapping.as_ptr() as usize + mapping.bytes() / 2;
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(maps().contains(&format!("{guard:x}-")));
    drop(mapping);
    let holds = |line: &str| {
        let (low, high) = address_range(line.split(' ').next().unwrap()).unwrap();
        low <= middle && middle < high
    };
    assert!(!maps().lines().any(holds));
    let left = format!("{guard:x}-{:x} ---p", guard + base_page_bytes());
    assert!(!maps().contains(&left));
}

#[test]
fn only_touched_pages_are_in_a_node() {
    let mut mapping = Mapping::new(16 * base_page_bytes(), Pages::Base).unwrap();
    let Ok(nodes) = mapping.nodes() else {
        // No page migration in this kernel, or forbidden.
        return skips::part("kernel", "page migration");
    };
    assert_eq!(nodes, BTreeMap::new());
    mapping.as_mut_slice()[0] = 1;
    mapping.as_mut_slice()[5 * base_page_bytes()] = 1;
    assert_eq!(mapping.nodes().unwrap().values().sum::<usize>(), 2);
    mapping.touch();
    assert_eq!(mapping.nodes().unwrap().values().sum::<usize>(), 16);
}

#[test]
fn memory_is_bound_to_its_node_and_to_no_missing_one() {
    let mut mapping = Mapping::new(8 * base_page_bytes(), Pages::Base).unwrap();
    mapping.touch();
    let Ok(nodes) = mapping.nodes() else { return };
    let (&node, _) = nodes.first_key_value().unwrap();
    if mapping.bind(node).is_ok() {
        assert_eq!(mapping.nodes().unwrap(), BTreeMap::from([(node, 8)]));
    }
    assert!(mapping.bind(1023).is_err());
}

/// From here on the calling process is answered EPERM by these system calls, as the sandboxes of
/// containers do.
fn forbid(calls: [libc::c_long; 2]) -> io::Result<()> {
    const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
    let mut filter = [
        // The number of the system call is the first word of what the filter sees.
        step(LOAD_WORD, 0, 0),
        step(JUMP_IF_EQUAL, 2, calls[0] as u32),
        step(JUMP_IF_EQUAL, 1, calls[1] as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: numbers, and a program of as many steps as it says, which the kernel copies.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[test]
fn a_sandbox_that_forbids_placement_is_told_from_memory_that_is_elsewhere() {
    // A process of its own, because nothing takes a filter back.
    let child = crate::process::Child::fork(|| {
        let mut mapping = Mapping::new(1 << 16, Pages::Base).expect("64 KiB");
        mapping.touch();
        if forbid([libc::SYS_mbind, libc::SYS_move_pages]).is_err() {
            return 3;
        }
        let forbidden =
            |answer: Option<io::ErrorKind>| answer == Some(io::ErrorKind::PermissionDenied);
        let bound = forbidden(mapping.bind(0).err().map(|error| error.kind()));
        let asked = forbidden(mapping.nodes().err().map(|error| error.kind()));
        match (bound, asked) {
            (true, true) => 0,
            _ => 4,
        }
    });
    child.expect("a child").succeed().expect("both are forbidden");
}
