//! A file system in memory that fails when it is told to: a FUSE server inside of the test.

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    SessionACL, TimeOrNow, WriteFlags,
};
use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// Bytes of a block, in what it says of its space.
const BLOCK: u64 = 4096;
/// The kernel asks anew each time.
const TTL: Duration = Duration::ZERO;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum On {
    /// Looking a name up, or its attributes.
    Look,
    Read,
    Write,
    Sync,
    Make,
    Remove,
}

#[derive(Clone, Copy, Debug)]
pub enum How {
    Error(Errno),
    /// The request is taken and never answered: its process waits in the kernel and cannot be
    /// killed.
    Hang,
    Slow(Duration),
}

/// What is told to it, and what it was asked.
#[derive(Default)]
struct State {
    /// From so many requests of a kind on.
    faults: BTreeMap<On, (u64, How)>,
    asked: BTreeMap<On, u64>,
    /// Requests that are not answered. A reply that is dropped answers with EIO.
    unanswered: Vec<Box<dyn Any + Send>>,
    is_read_only: bool,
    files: Files,
}

struct Files {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    room: u64,
}

enum Node {
    Dir(BTreeMap<OsString, u64>),
    File(Vec<u8>),
}

impl Default for Files {
    fn default() -> Self {
        Files {
            nodes: BTreeMap::from([(INodeNo::ROOT.0, Node::Dir(BTreeMap::new()))]),
            next: INodeNo::ROOT.0 + 1,
            room: 1 << 30,
        }
    }
}

/// A mounted one. When it is dropped, all that waits for it is answered, and it is gone.
pub struct Faulty {
    state: Arc<Mutex<State>>,
    session: Option<BackgroundSession>,
    dir: TempDir,
}

impl Faulty {
    /// `None` where this process may mount none.
    pub fn mount() -> Option<Faulty> {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let mut config = Config::default();
        config.acl = SessionACL::All;
        let server = Server(Arc::clone(&state));
        match fuser::spawn_mount(server, dir.path(), &config) {
            Ok(session) => Some(Faulty { state, session: Some(session), dir }),
            Err(error) => {
                skips::part("mount", error);
                None
            }
        }
    }

    /// One that behaves so after some requests of a kind; `None` as [`Faulty::mount`].
    pub fn that(on: On, after: u64, how: How) -> Option<Faulty> {
        let faulty = Faulty::mount()?;
        faulty.set(on, after, how);
        Some(faulty)
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn text(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }

    /// Has requests of a kind go wrong, after so many more.
    pub fn set(&self, on: On, after: u64, how: How) {
        let mut state = lock(&self.state);
        let asked = state.asked.get(&on).copied().unwrap_or(0);
        state.faults.insert(on, (asked + after, how));
    }

    /// Has everything go well again, and ends what waits: with an error.
    pub fn mend(&self) {
        let mut state = lock(&self.state);
        state.faults.clear();
        state.unanswered.clear();
    }

    pub fn set_room(&self, bytes: u64) {
        lock(&self.state).files.room = bytes;
    }

    pub fn set_read_only(&self, is_read_only: bool) {
        lock(&self.state).is_read_only = is_read_only;
    }

    /// Requests of a kind so far.
    pub fn asked(&self, on: On) -> u64 {
        lock(&self.state).asked.get(&on).copied().unwrap_or(0)
    }

    /// Requests that wait for ever.
    pub fn unanswered(&self) -> usize {
        lock(&self.state).unanswered.len()
    }

    /// The paths of everything in it, without asking the kernel.
    pub fn paths(&self) -> Vec<PathBuf> {
        let state = lock(&self.state);
        let mut paths = Vec::new();
        let mut left = vec![(INodeNo::ROOT.0, PathBuf::new())];
        while let Some((number, path)) = left.pop() {
            if let Some(Node::Dir(entries)) = state.files.nodes.get(&number) {
                left.extend(entries.iter().map(|(name, node)| (*node, path.join(name))));
            }
            paths.push(path);
        }
        paths.retain(|path| !path.as_os_str().is_empty());
        paths.sort();
        paths
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.mend();
        if let Some(session) = self.session.take() {
            // Who still has something open there keeps it from being unmounted; not for long.
            let _ = std::process::Command::new("umount").arg("-l").arg(self.dir.path()).status();
            drop(session);
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Server(Arc<Mutex<State>>);

type Outcome<T> = Result<T, Errno>;

impl Server {
    /// Does what is asked, unless it is to go wrong: then `None` where nothing is to be answered.
    fn on<T>(&self, on: On, act: impl FnOnce(&mut State) -> Outcome<T>) -> Option<Outcome<T>> {
        let mut state = lock(&self.0);
        let asked = state.asked.entry(on).or_default();
        let before = *asked;
        *asked += 1;
        let fault = state.faults.get(&on).copied();
        match fault.filter(|(after, _)| before >= *after) {
            None => {}
            Some((_, How::Error(error))) => return Some(Err(error)),
            Some((_, How::Hang)) => return None,
            Some((_, How::Slow(time))) => {
                drop(state);
                std::thread::sleep(time);
                state = lock(&self.0);
            }
        }
        let changes = matches!(on, On::Write | On::Make | On::Remove);
        if changes && state.is_read_only {
            return Some(Err(Errno::EROFS));
        }
        Some(act(&mut state))
    }

    fn never(&self, reply: impl Any + Send) {
        lock(&self.0).unanswered.push(Box::new(reply));
    }

    fn make(&self, parent: INodeNo, name: &OsStr, node: Node) -> Option<Outcome<FileAttr>> {
        self.on(On::Make, |state| {
            let number = state.files.next;
            let entries = state.files.dir(parent)?;
            if entries.contains_key(name) {
                return Err(Errno::EEXIST);
            }
            entries.insert(name.to_owned(), number);
            state.files.next += 1;
            state.files.nodes.insert(number, node);
            state.files.attributes(number)
        })
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, is_dir: bool) -> Option<Outcome<()>> {
        self.on(On::Remove, |state| {
            let number = *state.files.dir(parent)?.get(name).ok_or(Errno::ENOENT)?;
            match state.files.nodes.get(&number) {
                Some(Node::Dir(_)) if !is_dir => return Err(Errno::EISDIR),
                Some(Node::Dir(entries)) if !entries.is_empty() => return Err(Errno::ENOTEMPTY),
                _ => {}
            }
            state.files.dir(parent)?.remove(name);
            // Who has it open may read it for as long as the test lives; it takes no room.
            Ok(())
        })
    }
}

impl Files {
    fn dir(&mut self, number: INodeNo) -> Outcome<&mut BTreeMap<OsString, u64>> {
        match self.nodes.get_mut(&number.0) {
            Some(Node::Dir(entries)) => Ok(entries),
            Some(Node::File(_)) => Err(Errno::ENOTDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn file(&mut self, number: INodeNo) -> Outcome<&mut Vec<u8>> {
        match self.nodes.get_mut(&number.0) {
            Some(Node::File(bytes)) => Ok(bytes),
            Some(Node::Dir(_)) => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn used(&self) -> u64 {
        let named = self.nodes.values().filter_map(|node| match node {
            Node::Dir(entries) => Some(entries.values()),
            Node::File(_) => None,
        });
        let sizes = named.flatten().map(|number| match self.nodes.get(number) {
            Some(Node::File(bytes)) => bytes.len() as u64,
            _ => 0,
        });
        sizes.sum()
    }

    fn attributes(&self, number: u64) -> Outcome<FileAttr> {
        let (kind, size) = match self.nodes.get(&number).ok_or(Errno::ENOENT)? {
            Node::Dir(_) => (FileType::Directory, 0),
            Node::File(bytes) => (FileType::RegularFile, bytes.len() as u64),
        };
        Ok(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: if kind == FileType::Directory { 0o755 } else { 0o644 },
            nlink: 1,
            uid: metal::process::geteuid(),
            gid: 0,
            rdev: 0,
            blksize: BLOCK as u32,
            flags: 0,
        })
    }
}

/// Answers by the outcome, or never.
macro_rules! answer {
    ($server:ident, $reply:ident, $outcome:expr, $with:expr) => {
        match $outcome {
            Some(Ok(value)) => $with($reply, value),
            Some(Err(error)) => $reply.error(error),
            None => $server.never($reply),
        }
    };
}

impl Filesystem for Server {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.on(On::Look, |state| {
            let number = *state.files.dir(parent)?.get(name).ok_or(Errno::ENOENT)?;
            state.files.attributes(number)
        });
        answer!(self, reply, found, |reply: ReplyEntry, of| reply.entry(&TTL, &of, Generation(0)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.on(On::Look, |state| state.files.attributes(ino.0));
        answer!(self, reply, found, |reply: ReplyAttr, of| reply.attr(&TTL, &of));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = self.on(On::Write, |state| {
            if let Some(size) = size {
                state.files.file(ino)?.resize(size as usize, 0);
            }
            state.files.attributes(ino.0)
        });
        answer!(self, reply, set, |reply: ReplyAttr, of| reply.attr(&TTL, &of));
    }

    fn mkdir(&self, _: &Request, at: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let made = self.make(at, name, Node::Dir(BTreeMap::new()));
        answer!(self, reply, made, |reply: ReplyEntry, of| reply.entry(&TTL, &of, Generation(0)));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made = self.make(parent, name, Node::File(Vec::new()));
        answer!(self, reply, made, |reply: ReplyCreate, of| reply.created(
            &TTL,
            &of,
            Generation(0),
            FileHandle(0),
            FopenFlags::empty()
        ));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.remove(parent, name, false);
        answer!(self, reply, removed, |reply: ReplyEmpty, ()| reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.remove(parent, name, true);
        answer!(self, reply, removed, |reply: ReplyEmpty, ()| reply.ok());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.on(On::Read, |state| {
            let bytes = state.files.file(ino)?;
            let start = (offset as usize).min(bytes.len());
            let end = (start + size as usize).min(bytes.len());
            Ok(bytes[start..end].to_vec())
        });
        answer!(self, reply, read, |reply: ReplyData, bytes: Vec<u8>| reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.on(On::Write, |state| {
            let free = state.files.room.saturating_sub(state.files.used());
            let (start, end) = (offset as usize, offset as usize + data.len());
            let bytes = state.files.file(ino)?;
            if end.saturating_sub(bytes.len()) as u64 > free {
                return Err(Errno::ENOSPC);
            }
            bytes.resize(bytes.len().max(end), 0);
            bytes[start..end].copy_from_slice(data);
            Ok(data.len() as u32)
        });
        answer!(self, reply, written, |reply: ReplyWrite, bytes| reply.written(bytes));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.on(On::Sync, |_| Ok(()));
        answer!(self, reply, synced, |reply: ReplyEmpty, ()| reply.ok());
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let listed = self.on(On::Look, |state| {
            let entries = state.files.dir(ino)?.clone();
            let of = |number: u64| match state.files.nodes.get(&number) {
                Some(Node::Dir(_)) => FileType::Directory,
                _ => FileType::RegularFile,
            };
            let listed = entries.into_iter().map(|(name, it)| (name, it, of(it)));
            Ok(listed.collect::<Vec<_>>())
        });
        let list = |mut reply: ReplyDirectory, entries: Vec<(OsString, u64, FileType)>| {
            for (at, (name, number, kind)) in entries.into_iter().enumerate().skip(offset as usize)
            {
                if reply.add(INodeNo(number), at as u64 + 1, kind, name) {
                    break;
                }
            }
            reply.ok();
        };
        answer!(self, reply, listed, list);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let state = lock(&self.0);
        let blocks = state.files.room / BLOCK;
        let free = blocks.saturating_sub(state.files.used() / BLOCK);
        reply.statfs(blocks, free, free, 1000, 900, BLOCK as u32, 255, BLOCK as u32);
    }
}
