//! Files of an NFS server without a mount: libnfs, loaded when it is asked for.
//!
//! The library has had two orders of arguments under one name: before its version 6 `nfs_pread`
//! took offset, count and buffer, since then buffer, count and offset. Its own change of the names
//! of its raw calls in the same version (`…_async` became `…_task`) shows which one was loaded.
//! `struct nfs_url` grew in version 7, so it is only handed back.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{NonNull, null_mut};
use std::time::Duration;

use crate::answer::invalid;
use crate::dynamic::{Loaded, Wanted, calls, function};
use crate::tcp;

/// Versions 7, 6, 5 and 4. Older ones know no NFS 4 and no time-outs.
const WANTED: Wanted = Wanted {
    name: "libnfs",
    sonames: &["libnfs.so.17", "libnfs.so.16", "libnfs.so.14", "libnfs.so.13"],
    versions: "versions 4 to 7",
};

/// Kinds of files in `nfs_mode`.
const KIND_MASK: u64 = 0o170_000;
const KIND_REGULAR: u64 = 0o100_000;

type Context = *mut c_void;
type Handle = *mut c_void;
type PreadOffsetFirst = unsafe extern "C" fn(Context, Handle, u64, u64, *mut c_void) -> c_int;
type PreadBufferFirst = unsafe extern "C" fn(Context, Handle, *mut c_void, usize, u64) -> c_int;

/// `nfs_pread` in the order that the loaded library has.
#[derive(Clone, Copy)]
enum Pread {
    OffsetFirst(PreadOffsetFirst),
    BufferFirst(PreadBufferFirst),
}

/// The library, loaded for the rest of the process.
#[derive(Clone, Copy)]
pub struct Library {
    soname: &'static str,
    pread: Pread,
    calls: Calls,
}

calls! {
    init_context: c"nfs_init_context" fn() -> Context;
    destroy_context: c"nfs_destroy_context" fn(Context);
    parse_url: c"nfs_parse_url_full" fn(Context, *const c_char) -> *mut c_void;
    destroy_url: c"nfs_destroy_url" fn(*mut c_void);
    set_version: c"nfs_set_version" fn(Context, c_int) -> c_int;
    set_timeout: c"nfs_set_timeout" fn(Context, c_int);
    set_autoreconnect: c"nfs_set_autoreconnect" fn(Context, c_int);
    mount: c"nfs_mount" fn(Context, *const c_char, *const c_char) -> c_int;
    open: c"nfs_open" fn(Context, *const c_char, c_int, *mut Handle) -> c_int;
    stat: c"nfs_fstat64" fn(Context, Handle, *mut Stat) -> c_int;
    close: c"nfs_close" fn(Context, Handle) -> c_int;
    get_fd: c"nfs_get_fd" fn(Context) -> c_int;
    get_error: c"nfs_get_error" fn(Context) -> *const c_char;
}

/// `struct nfs_stat_64` of nfsc/libnfs.h, the same in all versions.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Stat {
    device: u64,
    inode: u64,
    mode: u64,
    links: u64,
    user: u64,
    group: u64,
    raw_device: u64,
    size: u64,
    rest: [u64; 9],
}

/// Where a file is, and how its server is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address<'words> {
    /// Name or address of the server.
    pub server: &'words str,
    /// Directory that is mounted, from the root of the server's names.
    pub export: &'words str,
    /// The file in it, with a slash before it.
    pub file: &'words str,
    /// The whole URL, whose arguments (`nfsport`, `mountport`, `uid` …) the library applies.
    pub url: &'words str,
    /// Version of the protocol: 3 or 4.
    pub version: i32,
}

/// A file that is open on its server, for reading only.
pub struct NfsFile {
    library: Library,
    context: NonNull<c_void>,
    file: NonNull<c_void>,
    bytes: u64,
    is_lost: bool,
}

impl Library {
    /// Loads it. Errors: `NotFound`: it is not installed. `Unsupported`: it lacks a call.
    pub fn load() -> io::Result<Library> {
        // SAFETY: the library has no constructors, and those below it (Kerberos, TLS in some
        // builds) have some that any process may run.
        Library::of(&unsafe { WANTED.load() }?)
    }

    /// Whether it can be loaded, found out in a child. Errors: those of [`Library::load`]; the
    /// child cannot be made, or did not survive the loading.
    pub fn look() -> io::Result<()> {
        WANTED.look(|| Library::load().map(drop))
    }

    fn of(loaded: &Loaded) -> io::Result<Library> {
        // Both orders have the name: the raw calls' names tell which.
        let is_new = loaded.find(c"rpc_nfs3_null_task").is_ok();
        if !is_new {
            loaded.find(c"rpc_nfs3_null_async")?;
        }
        let pread = loaded.find(c"nfs_pread")?;
        // SAFETY: functions of nfsc/libnfs.h, the same in versions 4 to 7; the order of nfs_pread's
        // arguments was told apart.
        unsafe {
            let pread = match is_new {
                true => Pread::BufferFirst(function(pread)),
                false => Pread::OffsetFirst(function(pread)),
            };
            Ok(Library { soname: loaded.soname, pread, calls: Calls::of(loaded)? })
        }
    }

    /// The name under which it was found.
    pub fn soname(&self) -> &'static str {
        self.soname
    }

    /// Mounts an export for this process alone, and opens a file of it. Every answer of the server
    /// is waited for so long as `patience` says (in whole seconds, at least one) and no longer; a
    /// connection that is lost stays lost. Errors: what the library says: no route, no export, no
    /// file, no answer in time; a file that is not a regular one (`InvalidInput`).
    pub fn open(self, address: &Address<'_>, patience: Duration) -> io::Result<NfsFile> {
        let text = |text: &str| CString::new(text).map_err(io::Error::from);
        let (server, export, file, url) =
            (text(address.server)?, text(address.export)?, text(address.file)?, text(address.url)?);
        // SAFETY: takes nothing.
        let context = NonNull::new(unsafe { (self.calls.init_context)() })
            .ok_or_else(|| io::Error::other("libnfs has no memory for a context"))?;
        let mut opening = Opening { library: self, context, file: null_mut() };
        opening.prepare(&url, address.version, patience)?;
        // SAFETY: a context of ours and texts that end with a zero byte and outlive the call.
        let mounted =
            unsafe { (self.calls.mount)(context.as_ptr(), server.as_ptr(), export.as_ptr()) };
        opening.told(mounted)?;
        // SAFETY: as above; the handle is written to a place of ours.
        let opened = unsafe {
            (self.calls.open)(
                context.as_ptr(),
                file.as_ptr(),
                libc::O_RDONLY,
                &raw mut opening.file,
            )
        };
        opening.told(opened)?;
        let stat = opening.stat()?;
        if stat.mode & KIND_MASK != KIND_REGULAR {
            return Err(invalid(format!("{} is not a regular file", address.url)));
        }
        opening.done(stat.size)
    }
}

/// A context on its way. One whose opening failed is left to the end of the process: a call that
/// was not answered stands in its queue with pointers to that call's frame, which is gone, and
/// giving the context back would call through them (libnfs 4 died of it here).
struct Opening {
    library: Library,
    context: NonNull<c_void>,
    file: Handle,
}

impl Opening {
    fn prepare(&self, url: &CStr, version: i32, patience: Duration) -> io::Result<()> {
        let (calls, context) = (&self.library.calls, self.context.as_ptr());
        // SAFETY: a context of ours and a text that outlives the call; what it returns is given
        // back unread, since versions differ in its layout.
        let parsed = unsafe {
            let parsed = (calls.parse_url)(context, url.as_ptr());
            if !parsed.is_null() {
                (calls.destroy_url)(parsed);
            }
            !parsed.is_null()
        };
        if !parsed {
            return Err(self.error("the URL"));
        }
        let seconds = patience.as_secs().clamp(1, 3600) as c_int;
        // SAFETY: a context of ours and plain values.
        let version = unsafe {
            (calls.set_timeout)(context, seconds * 1000);
            (calls.set_autoreconnect)(context, 0);
            (calls.set_version)(context, version)
        };
        self.told(version)
    }

    fn stat(&self) -> io::Result<Stat> {
        let mut stat = Stat::default();
        // SAFETY: an open file of this context, and a place of ours of the structure's size.
        let result =
            unsafe { (self.library.calls.stat)(self.context.as_ptr(), self.file, &raw mut stat) };
        self.told(result)?;
        Ok(stat)
    }

    /// Zero or the library's words.
    fn told(&self, result: c_int) -> io::Result<()> {
        match result {
            0.. => Ok(()),
            _ => Err(told(&self.library, self.context, result)),
        }
    }

    fn error(&self, what: &str) -> io::Error {
        let error = told(&self.library, self.context, 0);
        io::Error::new(error.kind(), format!("{what}: {error}"))
    }

    fn done(self, bytes: u64) -> io::Result<NfsFile> {
        let file = NonNull::new(self.file)
            .ok_or_else(|| io::Error::other("libnfs opened a file and gave none"))?;
        Ok(NfsFile { library: self.library, context: self.context, file, bytes, is_lost: false })
    }
}

impl NfsFile {
    /// Its size when it was opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads from an offset: one request and its answer. Fewer bytes than asked for at the file's
    /// end, or where the server gives no more at once. Errors: what the library says; after a
    /// time-out or a lost connection every later read fails too.
    #[inline]
    pub fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (context, file) = (self.context.as_ptr(), self.file.as_ptr());
        let start = buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: an open file of this context, which no other code uses meanwhile (`&mut self`);
        // the buffer is ours and as long as the count says; in the loaded library's order.
        let read = unsafe {
            match self.library.pread {
                Pread::OffsetFirst(pread) => {
                    pread(context, file, offset, buffer.len() as u64, start)
                }
                Pread::BufferFirst(pread) => pread(context, file, start, buffer.len(), offset),
            }
        };
        usize::try_from(read).map_err(|_| {
            self.is_lost = true;
            told(&self.library, self.context, read)
        })
    }

    /// What the kernel knows of the connection to the server. Errors: the connection is lost, or
    /// the kernel does not report it.
    pub fn tcp(&self) -> io::Result<tcp::Info> {
        // SAFETY: a context of ours.
        let descriptor: RawFd = unsafe { (self.library.calls.get_fd)(self.context.as_ptr()) };
        if descriptor < 0 {
            return Err(io::Error::from(io::ErrorKind::NotConnected));
        }
        // SAFETY: the library keeps its socket open as long as the context lives and is not served,
        // which this borrow of the file prevents.
        tcp::info(unsafe { BorrowedFd::borrow_raw(descriptor) })
    }
}

impl Drop for NfsFile {
    fn drop(&mut self) {
        // A server that did not answer a read is not asked to close, which would be waited for as
        // well; and its context is left, as that of a failed opening is.
        if self.is_lost {
            return;
        }
        // SAFETY: the file and its context are ours alone.
        unsafe {
            if (self.library.calls.close)(self.context.as_ptr(), self.file.as_ptr()) >= 0 {
                (self.library.calls.destroy_context)(self.context.as_ptr());
            }
        }
    }
}

/// The library's last words, else the system's of the result.
fn told(library: &Library, context: NonNull<c_void>, result: c_int) -> io::Error {
    // SAFETY: a context of ours; its text ends with a zero byte and is copied before the next call.
    let said = unsafe {
        let said = (library.calls.get_error)(context.as_ptr());
        (!said.is_null()).then(|| CStr::from_ptr(said).to_string_lossy().into_owned())
    };
    let system = io::Error::from_raw_os_error(result.saturating_neg());
    let said = said.filter(|said| !said.trim().is_empty());
    match said {
        Some(said) if result == 0 => io::Error::other(said),
        // A time-out is EINTR to the library: its words say better.
        Some(said) => io::Error::new(system.kind(), said),
        None => system,
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Library};
    use crate::scratch::{closed_port, loading};
    use std::io::ErrorKind;
    use std::time::Duration;

    fn library() -> Option<Library> {
        let _alone = loading();
        match Library::load() {
            Ok(library) => Some(library),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                skips::part("library", error);
                None
            }
        }
    }

    #[test]
    fn a_server_that_is_not_there_and_what_is_no_url_are_errors_with_their_reason() {
        let Some(library) = library() else { return };
        assert!(super::WANTED.sonames.contains(&library.soname()));
        let told = |url: &str| {
            let address =
                Address { server: "127.0.0.1", export: "/none", file: "/file", url, version: 4 };
            let error = library.open(&address, Duration::from_secs(1)).err();
            error.expect("nobody listens").to_string()
        };
        let nobody = told(&format!("nfs://127.0.0.1/none/file?nfsport={}", closed_port()));
        assert!(nobody.len() > 5, "{nobody}");
        let refused = told("http://127.0.0.1/none/file");
        assert!(refused.starts_with("the URL:"), "{refused}");
    }

    #[test]
    fn looking_for_it_loads_nothing_here() {
        let _alone = loading();
        let is_loaded = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.contains("/libnfs.so.")
        };
        // In a process of its own: other tests of this one load it.
        let told = crate::process::within(Duration::from_secs(60), |_| {
            let before = is_loaded();
            let found = Library::look();
            let after = is_loaded();
            let loaded = Library::load();
            let same = match (&found, &loaded) {
                (Ok(()), Ok(_)) => is_loaded(),
                (Err(found), Err(loaded)) => found.to_string() == loaded.to_string(),
                _ => false,
            };
            Ok(vec![u8::from(before), u8::from(after), u8::from(same)])
        })
        .unwrap();
        assert_eq!(told[0], told[1], "it was loaded by looking");
        assert_eq!(told[2], 1, "looking and loading differ");
    }
}
