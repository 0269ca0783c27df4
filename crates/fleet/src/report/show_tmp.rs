use super::View;
use super::names::Titles;
use crate::fixture::Fleet;
use crate::read::Sweep;
#[test]
fn write_all() {
    let Some(dir) = std::env::var_os("SHOW_DIR") else { return };
    let dir = std::path::Path::new(&dir);
    for (name, fleet) in [
        ("planted", Fleet::planted()),
        ("healthy", Fleet::healthy(24)),
        (
            "big",
            Fleet {
                slow: vec![(70, "memory.bandwidth", 0.8)],
                lost: Some(20),
                link: Some((3, 11, 0.5)),
                ..Fleet::healthy(1000)
            },
        ),
    ] {
        std::fs::write(dir.join(format!("{name}.jsonl")), fleet.record()).unwrap();
        let sweep = Sweep::from_events(fleet.events()).unwrap();
        let at = std::time::Instant::now();
        let view = View::of(&sweep, Titles::default());
        eprintln!("{name} judged {:?} {} verdicts", at.elapsed(), view.judgement.verdicts.len());
    }
    let base = Fleet::planted();
    let new = Fleet {
        noise: 2,
        id: "2026-11-27T21-00-rank0",
        changed: vec![("os.syscall", 0.93)],
        kernel: "6.18.1",
        slow: vec![(7, "memory.bandwidth", 0.71), (9, "memory.bandwidth", 0.8)],
        ..base
    };
    std::fs::write(dir.join("after.jsonl"), new.record()).unwrap();
}
