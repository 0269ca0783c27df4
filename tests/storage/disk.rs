//! File systems of their own on loop devices, which can be filled, turned read-only and taken away.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A mounted file system in a file. When it is dropped, it is gone, and so is its loop device.
pub struct Disk {
    dir: TempDir,
    is_mounted: bool,
}

/// The loop device of one that is not mounted.
pub struct Device {
    path: PathBuf,
    _open: File,
}

impl Disk {
    /// Of a kind (`ext4`, `xfs`) and size; `None` where this process may mount none.
    pub fn new(kind: &str, bytes: u64) -> Option<Disk> {
        Disk::with(kind, bytes, "loop")
    }

    pub fn with(kind: &str, bytes: u64, options: &str) -> Option<Disk> {
        let mut disk = Disk { dir: tempfile::tempdir().unwrap(), is_mounted: false };
        fs::create_dir(disk.path()).unwrap();
        let image = disk.image();
        // Blocks of the file come as they are needed.
        File::create(&image).unwrap().set_len(bytes).unwrap();
        let image = image.to_str().unwrap();
        let made = run(&format!("mkfs.{kind}"), &["-q", image]);
        assert!(made.is_ok(), "{made:?} (scripts/test installs it)");
        disk.mount(&["-o", options, image]).then_some(disk)
    }

    /// Of a kind that lies in memory alone.
    pub fn in_memory(kind: &str) -> Option<Disk> {
        let mut disk = Disk { dir: tempfile::tempdir().unwrap(), is_mounted: false };
        fs::create_dir(disk.path()).unwrap();
        disk.mount(&["-t", kind, kind]).then_some(disk)
    }

    /// An overlay whose files are on another one, as a container has it.
    pub fn over(other: &Disk) -> Option<Disk> {
        let mut disk = Disk { dir: tempfile::tempdir().unwrap(), is_mounted: false };
        let [lower, upper, work] = ["lower", "upper", "work"].map(|name| other.path().join(name));
        for dir in [&disk.path(), &lower, &upper, &work] {
            fs::create_dir(dir).unwrap();
        }
        let [lower, upper, work] = [&lower, &upper, &work].map(|path| path.display());
        let layers = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        disk.mount(&["-t", "overlay", "-o", &layers, "overlay"]).then_some(disk)
    }

    fn mount(&mut self, what: &[&str]) -> bool {
        let place = self.text();
        let mounted = run("mount", &[what, &[&place]].concat());
        if let Err(why) = &mounted {
            skips::part("mount", why);
        }
        self.is_mounted = mounted.is_ok();
        self.is_mounted
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("mounted")
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    /// Takes it away; an error where something is open. Its loop device, with the number that plumb
    /// knows it by, stays as long as the answer does.
    pub fn unmount(&self) -> Result<Device, String> {
        let (mounts, place) = (fs::read_to_string("/proc/self/mounts").unwrap(), self.text());
        let is_here = |line: &&str| line.split(' ').nth(1) == Some(&place);
        let device = mounts.lines().find(is_here).and_then(|line| line.split(' ').next());
        let path = PathBuf::from(device.expect("it is mounted"));
        let open = File::open(&path).unwrap();
        run("umount", &[&place]).map(|()| Device { path, _open: open })
    }

    pub fn mount_again(&self, device: Device) -> Result<(), String> {
        run("mount", &[device.path.to_str().unwrap(), &self.text()])
    }

    pub fn text(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }

    /// Mounts it with another option; an error where something is open for writing.
    pub fn remount(&self, option: &str) -> Result<(), String> {
        run("mount", &["-o", &format!("remount,{option}"), &self.text()])
    }

    /// Fills it to the last block.
    pub fn fill(&self) -> PathBuf {
        let path = self.path().join("others");
        // What is left of it is found by halves, at once.
        let mut bytes: u64 = 1 << 40;
        while bytes >= 1 << 16 {
            let more = format!("{bytes}");
            let text = path.to_str().unwrap();
            let have = fs::metadata(&path).map_or(0, |found| found.len()).to_string();
            if run("fallocate", &["-o", &have, "-l", &more, text]).is_err() {
                bytes /= 2;
            }
        }
        let of = format!("of={}", path.display());
        for block in ["bs=64K", "bs=512"] {
            // Each ends because nothing is left for its blocks.
            let append = ["oflag=append", "conv=notrunc"];
            let _ = run("dd", &[&["if=/dev/zero", &of, block], &append[..]].concat());
        }
        path
    }

    pub fn left(&self) -> Vec<PathBuf> {
        let of_plumb = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.contains("plumb-")
        };
        entries(&self.path()).into_iter().filter(of_plumb).collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            // What a failing test left open must not keep it.
            let _ = run("umount", &["-l", &self.text()]);
        }
    }
}

pub fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Runs a program that must succeed; else what it said.
fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output =
        Command::new(program).args(args).output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
