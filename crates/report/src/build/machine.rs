//! The machine, as the run's header describes it, and its environment.

use crate::document::{Audience, Block, Cell, Row, Section, Table};
use crate::values;
use analysis::gather::distinct;
use record::event::{Calibration, PUBLISHED, PeerHeader};
use record::quantity::{digits, render_bytes};
use record::run::Run;
use serde_json::Value;

mod hardware;

pub fn section(run: &Run) -> Section {
    let facts = Facts(&run.header.host);
    let mut pairs = facts_of(&facts, &run.header.calibration);
    pairs.extend(files(run).map(|text| ("files".to_owned(), text)));
    pairs.push(("identity".to_owned(), run.header.identity.clone()));
    let far = run.header.peers.iter();
    pairs.extend(far.map(|peer| (format!("far end {}", peer.name), far_end(peer, &facts))));
    let mut blocks = vec![Block::KeyValues(pairs).for_all()];
    // Nothing was searched for on a published machine.
    let unread = match run.header.is_published() {
        true => Vec::new(),
        false => hardware::unread(&facts),
    };
    blocks.extend(in_detail(&facts, &unread));
    for peer in &run.header.peers {
        let facts = Facts(&peer.host);
        let mut pairs = facts_of(&facts, &peer.calibration);
        pairs.push(("identity".to_owned(), peer.identity.clone()));
        let heading = Block::Subheading(format!("Far end {}", peer.name));
        blocks.extend([heading, Block::KeyValues(pairs)].map(Block::on_page));
        blocks.extend(in_detail(&facts, &hardware::unread(&facts)));
    }
    Section::new("machine", "Machine", blocks)
}

/// Where the files of the run were, as the facts of its cases say it: the file system, and the disks
/// below with what is in between.
fn files(run: &Run) -> Option<String> {
    let mut all = run.predictions.iter().map(|event| &event.at);
    let at = all.find(|at| at.contains_key("ground"))?;
    let text = |name| at.get(name).and_then(|value| value.text());
    let fs = text("file_system")?;
    Some(match text("device_path").or(text("device")) {
        // A reason why no disk is known begins with the file system.
        Some(why) if why.starts_with(fs) => why.to_owned(),
        Some(path) => format!("{fs} on {path}"),
        None => fs.to_owned(),
    })
}

fn facts_of(facts: &Facts, clocks: &Calibration) -> Vec<(String, String)> {
    let doubts = facts.list("/doubts").iter().map(hardware::text);
    let pairs = [
        ("processor", processor(facts)),
        ("processor details", details(facts)),
        ("clock", clock(clocks)),
        ("memory", memory(facts)),
        ("memory modules and channels", hardware::modules(facts)),
        ("I/O bus", hardware::bus(facts)),
        ("system", system(facts)),
        ("machine", virtualisation(facts)),
        ("not believed", joined(&doubts.collect::<Vec<_>>())),
    ];
    pairs
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_owned(), text.filter(|text| !text.is_empty())?)))
        .collect()
}

/// Its parts in tables, and the parts that were not readable.
fn in_detail(facts: &Facts, unread: &[(String, String)]) -> Vec<(Audience, Block)> {
    let tables = [
        Some(caches(facts)),
        hardware::dimms(facts),
        hardware::disks(facts),
        hardware::cards(facts),
    ];
    let tables = tables.into_iter().flatten();
    let mut blocks: Vec<(Audience, Block)> = tables
        .filter(|table| !table.rows.is_empty())
        .map(|table| Block::Table(table).for_all())
        .collect();
    if !unread.is_empty() {
        let summary = format!("Not readable here, and why ({})", unread.len());
        let reasons = vec![Block::KeyValues(unread.to_vec())];
        blocks.push(Block::Folded { summary, blocks: reasons }.on_page());
    }
    blocks
}

/// The machine in a line: processor, machine, memory and system.
pub fn in_a_line(run: &Run) -> String {
    let facts = Facts(&run.header.host);
    let model = facts.text("/cpu/model_name").or_else(|| facts.text("/cpu/arch"));
    let core = facts.design(run.header.cpus.first()).filter(|name| Some(name) != model.as_ref());
    let core = core.map(|name| format!(" ({name})"));
    let cpus = facts.list("/cpu/cpus").iter().filter(|cpu| cpu["online"] == true).count();
    let hypervisor = facts.text("/kernel/virtualisation/hypervisor");
    let guest = facts.0.pointer("/kernel/virtualisation/is_guest") == Some(&Value::Bool(true));
    let count = match guest {
        true => format!("{cpus} vCPU {}", hypervisor.unwrap_or_else(|| "guest".to_owned())),
        false => values::counted(cpus, "CPU"),
    };
    // The first two numbers of a release; the rest of a distribution's name is a nickname.
    let release = facts.text("/kernel/release").map(|release| {
        let parts: Vec<&str> = release.split(['.', '-']).take(2).collect();
        format!("Linux {}", parts.join("."))
    });
    let distribution = facts.text("/kernel/distribution").map(|name| {
        let plain = name.replace(" GNU/Linux", "");
        plain.split(" (").next().unwrap_or_default().to_owned()
    });
    let parts = [
        model.map(|model| format!("{model}{}", core.unwrap_or_default())),
        (cpus > 0).then_some(count),
        facts.number("/memory/total_bytes").map(render_bytes),
        release,
        distribution,
    ];
    joined(&parts).unwrap_or_else(|| "an unknown machine".to_owned())
}

/// Everything the environment said, by name.
pub fn environment(run: &Run) -> Section {
    let pairs: Vec<(String, String)> =
        run.header.environment.iter().map(|(name, text)| (name.clone(), text.clone())).collect();
    let mut blocks = vec![Block::KeyValues(pairs)];
    for peer in &run.header.peers {
        blocks.push(Block::text(format!("Environment of the far end {}:", peer.name)));
        blocks.push(Block::KeyValues(peer.environment.clone().into_iter().collect()));
    }
    let segments = run.segments.iter();
    blocks.extend(
        segments.map(|segment| {
            Block::text(format!("Segment {} began {}.", segment.n, segment.started))
        }),
    );
    Section::new("environment", "Environment", blocks.into_iter().map(Block::on_page).collect())
}

fn far_end(peer: &PeerHeader, here: &Facts) -> String {
    let facts = Facts(&peer.host);
    let link = match (hardware::only_card(here), hardware::only_card(&facts)) {
        (None, None) => None,
        (here, there) => {
            let name = |card: Option<String>| card.unwrap_or_else(|| "one of several".to_owned());
            Some(format!("link from {} to {}", name(here), name(there)))
        }
    };
    let parts = [
        processor(&facts),
        system(&facts),
        virtualisation(&facts),
        Some(format!("data at {}", peer.address)),
        link,
        Some(format!("plumb {} by {}", peer.plumb, peer.url)),
        Some(format!("identity {}", peer.identity)),
    ];
    joined(&parts).unwrap_or_default()
}

/// The host's JSON; what is absent is `None`.
struct Facts<'a>(&'a Value);

impl Facts<'_> {
    fn text(&self, pointer: &str) -> Option<String> {
        hardware::text(self.0.pointer(pointer)?)
    }

    fn number(&self, pointer: &str) -> Option<f64> {
        self.0.pointer(pointer)?.as_f64()
    }

    fn list(&self, pointer: &str) -> &[Value] {
        self.0.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The core design of a CPU, which is that of its class; of the strongest cores without one.
    fn design(&self, cpu: Option<&usize>) -> Option<String> {
        let number = cpu.map_or(Value::Null, |cpu| Value::from(*cpu));
        let holds =
            |class: &&Value| class["cpus"].as_array().is_some_and(|cpus| cpus.contains(&number));
        let class = self.list("/cpu/classes").iter().find(holds);
        let core = class.and_then(|class| hardware::text(&class["core"]));
        let name = core.or_else(|| self.text("/cpu/microarchitecture/core"))?;
        Some(if name == "unknown" { "unknown core".to_owned() } else { name })
    }

    /// The core designs of all CPUs, strongest first.
    fn designs(&self) -> Option<String> {
        let cores = self.list("/cpu/classes").iter().map(|class| hardware::text(&class["core"]));
        joined(&cores.collect::<Vec<_>>()).or_else(|| self.design(None))
    }
}

fn joined(parts: &[Option<String>]) -> Option<String> {
    let parts: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn processor(facts: &Facts) -> Option<String> {
    let cpus = facts.list("/cpu/cpus");
    let online = cpus.iter().filter(|cpu| cpu["online"] == true).count();
    // A CPU that is off is in no socket.
    let running = cpus.iter().filter(|cpu| cpu["online"] == true);
    let named = running.map(|cpu| &cpu["package"]).filter(|package| !package.is_null());
    let sockets = match distinct(named).len() {
        0 => String::new(),
        packages => format!(" in {}", values::counted(packages, "socket")),
    };
    let count = (online > 0).then(|| format!("{}{sockets}", values::counted(online, "CPU")));
    let model = facts.text("/cpu/model_name").or_else(|| facts.text("/cpu/arch"));
    joined(&[model, count])
}

fn details(facts: &Facts) -> Option<String> {
    let labelled = |label: &str, pointer| facts.text(pointer).map(|text| format!("{label} {text}"));
    joined(&[
        facts.text("/cpu/vendor"),
        facts.designs(),
        labelled("family", "/cpu/family"),
        labelled("model", "/cpu/model"),
        labelled("stepping", "/cpu/stepping"),
        labelled("microcode", "/cpu/microcode"),
    ])
}

fn clock(clocks: &Calibration) -> Option<String> {
    // The figures of a published report come without a calibrated clock.
    if clocks.source == PUBLISHED {
        return Some(clocks.notes.join("; "));
    }
    let is_known = clocks.core_hz.is_finite() && clocks.core_hz > 0.0;
    is_known.then(|| {
        format!(
            "core {} ({}), counter {} ({}), one cycle {} ns",
            values::clock(clocks.core_hz),
            clocks.core_source,
            values::clock(clocks.counter_hz),
            clocks.source,
            digits(1e9 / clocks.core_hz)
        )
    })
}

fn memory(facts: &Facts) -> Option<String> {
    let bytes = |pointer: &str, label: &str| {
        facts.number(pointer).map(|bytes| format!("{}{label}", render_bytes(bytes)))
    };
    let nodes = facts.list("/numa/nodes").len();
    joined(&[
        bytes("/memory/total_bytes", ""),
        bytes("/memory/available_bytes", " available"),
        (nodes > 1).then(|| format!("{nodes} NUMA nodes")),
        facts.text("/memory/thp/enabled").map(|mode| format!("transparent huge pages {mode}")),
    ])
}

fn system(facts: &Facts) -> Option<String> {
    joined(&[
        facts.text("/kernel/distribution"),
        facts.text("/kernel/release").map(|release| format!("Linux {release}")),
        facts.text("/kernel/hz").map(|hz| format!("HZ {hz}")),
        facts.text("/kernel/clock_source/current").map(|source| format!("clock source {source}")),
    ])
}

fn virtualisation(facts: &Facts) -> Option<String> {
    let guest = facts.0.pointer("/kernel/virtualisation/is_guest") == Some(&Value::Bool(true));
    joined(&[
        guest.then(|| match facts.text("/kernel/virtualisation/hypervisor") {
            Some(name) => format!("virtual machine ({name})"),
            None => "virtual machine".to_owned(),
        }),
        facts.text("/kernel/container/runtime").map(|name| format!("container ({name})")),
        facts.text("/kernel/virtualisation/system_vendor"),
        facts.text("/kernel/virtualisation/product"),
    ])
}

fn caches(facts: &Facts) -> Table {
    let text = |text: Option<String>| Cell::plain(text.unwrap_or_else(|| "-".to_owned()));
    let rows = facts.list("/cache/levels").iter().filter_map(|cache| {
        let kind = match cache["kind"].as_str()? {
            "data" => "d",
            "instruction" => "i",
            _ => "",
        };
        let number = |name: &str| cache[name].as_u64().map(|number| number.to_string());
        Some(Row::always_shown(vec![
            Cell::plain(format!("L{}{kind}", cache["level"].as_u64()?)),
            Cell::plain(render_bytes(cache["size_bytes"].as_f64()?)),
            text(number("ways").map(|ways| format!("{ways}-way"))),
            text(number("line_bytes").map(|line| format!("{line} B"))),
            text(cache["write_policy"].as_str().map(str::to_owned)),
            text(number("sharers")),
        ]))
    });
    Table::new(
        "Caches, as the machine states them",
        &["cache", "#size", "#associativity", "#line", "write policy", "#CPUs sharing one"],
        rows,
    )
}
