//! A machine of software: a kernel, an archive of files for it to start from, and what its script
//! printed.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The machine is given up after this; it is expected to take a fifth of it.
const PATIENCE: Duration = Duration::from_secs(240);
/// A kernel that has not come to its script after this has stopped on its way: it takes 3 to 9 s.
const BOOT_PATIENCE: Duration = Duration::from_secs(60);
/// A machine that stops before its script is started again, up to this many starts. (Once in CI the
/// real-time kernel of four CPUs printed nothing for 150 s; 30 starts beside two builds worked.)
const STARTS: usize = 3;
/// What a machine prints before its script runs.
const UP: &str = "up\n";
const EMULATOR: &str = "qemu-system-x86_64";
/// On a busy host a kernel may find the emulated serial lines' interrupts unhandled 100,000 times:
/// it would no longer serve them (`noirqdebug`).
const KERNEL_LINE: &str = "console=ttyS0 panic=-1 mitigations=off nokaslr noirqdebug";

/// What a machine is made of beside what every one of them has.
pub struct Machine<'words> {
    /// Name of the kernel's file, as `scripts/test` puts it there.
    pub kernel: &'words str,
    /// What its command line says further.
    pub kernel_line: &'words str,
    /// The emulator's arguments for the processor, CPUs, memory and nodes.
    pub hardware: &'words str,
    /// Programs of this machine that the other has as well, by their paths.
    pub programs: &'words [&'words str],
    /// Network namespace in which the emulator runs, and whose loopback the other machine reaches
    /// as 10.0.2.2: then the kernel's modules are in `/modules`, in their order in
    /// `/modules/order`.
    pub network: Option<&'words str>,
}

/// What a script of a machine with a card begins with: its modules, and its address.
pub const CARD_UP: &str = "\
cd /modules; while read module; do insmod ./$module || echo \"no $module\"; done < order; cd /
ip link set lo up; ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0
";

impl<'words> Machine<'words> {
    /// One of Debian's stable kernel, without a network.
    pub const PLAIN: Self =
        Machine { kernel: "vmlinuz", kernel_line: "", hardware: "", programs: &[], network: None };

    /// One of two CPUs with a network card, behind which lies the loopback of a namespace.
    pub fn with_card(namespace: &'words str) -> Machine<'words> {
        Machine {
            kernel_line: "net.ifnames=0",
            hardware: "-cpu max,+invtsc -smp 2 -m 640M",
            network: Some(namespace),
            ..Machine::PLAIN
        }
    }
}

/// Where `scripts/test` puts the kernels.
fn kernel(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let kernel = target.join("emulated").join(name);
    assert!(
        kernel.is_file(),
        "{} is missing: scripts/test unpacks it from a package",
        kernel.display()
    );
    kernel
}

/// One machine at a time: beside another it would wait for the CPUs, in the middle of slices.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a shell script as the only work of a machine, and returns what it printed. The binary is
/// `plumb` there; `/tmp` can be written. The script has a serial line of its own, because the
/// kernel writes complaints (of a stalled CPU, on a busy host) into the middle of the console's
/// lines.
pub fn run(machine: &Machine, script: &str) -> String {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("files.cpio");
    let modules = machine.network.map(|_| kernel("modules/order"));
    fs::write(&archive, files(&dir, machine.programs, modules.as_deref(), script)).unwrap();
    let printed = dir.path().join("printed");
    let mut stopped = String::new();
    for _ in 0..STARTS {
        match watch(&mut start(machine, &archive, &printed), &printed) {
            // The consoles of what was started before stand behind its own.
            Ok(whole) => return whole + &stopped,
            Err(console) => stopped += &console,
        }
    }
    panic!("the machine stopped {STARTS} times before its script:\n{stopped}");
}

/// The emulator, whose second serial line is the file `printed`.
fn start(machine: &Machine, archive: &Path, printed: &Path) -> Child {
    let mut command = match machine.network {
        Some(namespace) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace, EMULATOR]);
            command
        }
        None => Command::new(EMULATOR),
    };
    command
        // Never the hardware's virtualisation: the machine is the same everywhere.
        .args(["-accel", "tcg,thread=multi", "-M", "q35"])
        .args(machine.hardware.split_whitespace())
        .arg("-kernel")
        .arg(kernel(machine.kernel))
        .arg("-initrd")
        .arg(archive)
        .arg("-append")
        .arg(format!("{KERNEL_LINE} {}", machine.kernel_line))
        .args(["-display", "none", "-serial", "stdio", "-monitor", "none", "-serial"])
        .arg(format!("file:{}", printed.display()))
        .args(["-no-reboot", "-nodefaults"])
        .args(match machine.network {
            Some(_) => ["-nic", "user,model=virtio-net-pci"],
            None => ["-nic", "none"],
        })
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap_or_else(|error| {
        panic!("{EMULATOR}: {error} (scripts/test installs qemu-system-x86)")
    })
}

/// What the script printed until the machine was switched off, and after it the console as a part; the
/// console alone if the machine did not come to the script. One that is not in time is ended.
fn watch(machine: &mut Child, printed: &Path) -> Result<String, String> {
    let mut out = machine.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut console = Vec::new();
        out.read_to_end(&mut console).unwrap();
        String::from_utf8_lossy(&console).into_owned()
    });
    let is_up = || fs::metadata(printed).is_ok_and(|file| file.len() > 0);
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = machine.try_wait().unwrap() {
            break Some(status);
        }
        let patience = if is_up() { PATIENCE } else { BOOT_PATIENCE };
        if begin.elapsed() >= patience {
            machine.kill().unwrap();
            machine.wait().unwrap();
            break None;
        }
        thread::sleep(Duration::from_millis(20));
    };
    let console = reader.join().unwrap();
    let mut errors = String::new();
    let _ = machine.stderr.take().unwrap().read_to_string(&mut errors);
    let text = fs::read(printed).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).replace('\r', "");
    let console = format!("[console\n{console}console]\n");
    let whole = text.strip_prefix(UP).map(|text| format!("{text}{console}"));
    match (status, whole) {
        (Some(status), Some(whole)) if status.success() => Ok(whole),
        (None, None) => Err(console),
        (Some(status), _) => panic!("{EMULATOR} ended with {status}: {errors}\n{text}{console}"),
        (None, Some(whole)) => panic!("the machine was not done after {PATIENCE:?}:\n{whole}"),
    }
}

/// The archive that becomes the machine's root: busybox, plumb without its debug information,
/// further programs, their libraries, and the script.
fn files(dir: &TempDir, programs: &[&str], modules: Option<&Path>, script: &str) -> Vec<u8> {
    let plumb = dir.path().join("plumb");
    let stripped =
        Command::new("strip").arg("-o").arg(&plumb).arg(env!("CARGO_BIN_EXE_plumb")).status();
    assert!(stripped.expect("strip, of binutils").success());
    let busybox = ["/bin/busybox", "/usr/bin/busybox"]
        .into_iter()
        .map(Path::new)
        .find(|path| path.is_file())
        .expect("scripts/test installs busybox-static");

    let mut archive = Archive(Vec::new());
    for name in ["bin", "proc", "sys", "dev", "tmp"] {
        archive.directory(name);
    }
    archive.file("bin/plumb", &fs::read(&plumb).unwrap());
    archive.file("bin/busybox", &fs::read(busybox).unwrap());
    for applet in [
        "sh", "mount", "cat", "echo", "mkdir", "poweroff", "taskset", "insmod", "ip", "umount",
        "ls",
    ] {
        archive.link(&format!("bin/{applet}"), "busybox");
    }
    let mut shared = libraries(&plumb);
    shared.extend(libraries(busybox));
    for program in programs.iter().map(Path::new) {
        let name = program.file_name().unwrap().to_str().unwrap();
        let content = fs::read(program)
            .unwrap_or_else(|error| panic!("{}: {error} (scripts/test)", program.display()));
        archive.file(&format!("bin/{name}"), &content);
        shared.extend(libraries(program));
    }
    shared.sort();
    shared.dedup();
    let mut made: Vec<String> = vec!["bin".to_owned()];
    for library in shared {
        let name = library.trim_start_matches('/');
        let parts: Vec<&str> = name.split('/').collect();
        for depth in 1..parts.len() {
            let parent = parts[..depth].join("/");
            if !made.contains(&parent) {
                archive.directory(&parent);
                made.push(parent);
            }
        }
        archive.file(name, &fs::read(&library).unwrap());
    }
    if let Some(order) = modules {
        archive.directory("modules");
        let list = fs::read_to_string(order).unwrap();
        archive.file("modules/order", list.as_bytes());
        for name in list.lines() {
            let module = order.with_file_name(name);
            archive.file(&format!("modules/{name}"), &fs::read(module).unwrap());
        }
    }
    archive.file("run", script.as_bytes());
    let init = "#!/bin/sh\nexport PATH=/bin PLUMB_STORE=/tmp/store\n\
        mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev\n\
        mount -t tmpfs tmp /tmp\necho up > /dev/ttyS1\nsh /run > /dev/ttyS1 2>&1\npoweroff -f\n";
    archive.file("init", init.as_bytes());
    archive.end()
}

/// What the loader would take for a program, the loader included; nothing for a static one.
fn libraries(program: &Path) -> Vec<String> {
    let told = Command::new("ldd").arg(program).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let words = told.split_whitespace();
    words
        .filter(|word| word.starts_with('/') && Path::new(word).is_file())
        .map(str::to_owned)
        .collect()
}

/// An archive of cpio's `newc` form, which the kernel unpacks.
struct Archive(Vec<u8>);

impl Archive {
    fn directory(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[]);
    }

    fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, 0o100_755, content);
    }

    fn link(&mut self, name: &str, to: &str) {
        self.entry(name, 0o120_777, to.as_bytes());
    }

    fn end(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.0
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        let bytes = u32::try_from(content.len()).expect("no file of 4 GiB");
        let length = u32::try_from(name.len() + 1).unwrap();
        // Number, mode, user, group, links, time, bytes, four devices, length of the name, check.
        let fields = [0, mode, 0, 0, 1, 0, bytes, 0, 0, 0, 0, length, 0];
        self.0.extend(b"070701");
        for field in fields {
            write!(self.0, "{field:08x}").unwrap();
        }
        self.0.extend(name.as_bytes());
        self.0.push(0);
        self.fill();
        self.0.extend(content);
        self.fill();
    }

    fn fill(&mut self) {
        let whole = self.0.len().next_multiple_of(4);
        self.0.resize(whole, 0);
    }
}
