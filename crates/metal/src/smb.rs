//! Files of an SMB server without a mount: libsmbclient, loaded when it is asked for.
//!
//! The library calls a function of ours for the password, which returns the environment's `PASSWD`,
//! as smbclient and mount.cifs do. Without a user in the URL the user is `guest` without a password,
//! and an anonymous one if the server refuses the guest.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;
use std::time::Duration;

use crate::answer::invalid;
use crate::dynamic::{Loaded, Wanted, calls};
use crate::tcp;

/// The number of the interface has not changed since Samba 3.2.
const WANTED: Wanted = Wanted {
    name: "libsmbclient",
    sonames: &["libsmbclient.so.0"],
    versions: "those of Samba 3.2 and later",
};
/// Where an SMB server listens.
const PORT: u16 = 445;
/// The user of a URL that names none.
const GUEST: &CStr = c"guest";
/// The environment's variable with the password.
const PASSWORD: &str = "PASSWD";

type Context = *mut c_void;
type Handle = *mut c_void;
type Open = unsafe extern "C" fn(Context, *const c_char, c_int, libc::mode_t) -> Handle;
type Read = unsafe extern "C" fn(Context, Handle, *mut c_void, usize) -> isize;
type Seek = unsafe extern "C" fn(Context, Handle, libc::off_t, c_int) -> libc::off_t;
type Stat = unsafe extern "C" fn(Context, Handle, *mut libc::stat) -> c_int;
type Close = unsafe extern "C" fn(Context, Handle) -> c_int;
/// Context, server, share; then workgroup, user and password, each with its room.
type Authenticate = unsafe extern "C" fn(
    Context,
    *const c_char,
    *const c_char,
    *mut c_char,
    c_int,
    *mut c_char,
    c_int,
    *mut c_char,
    c_int,
);

/// The library, loaded for the rest of the process.
#[derive(Clone, Copy)]
pub struct Library {
    soname: &'static str,
    calls: Calls,
}

calls! {
    new_context: c"smbc_new_context" fn() -> Context;
    init_context: c"smbc_init_context" fn(Context) -> Context;
    free_context: c"smbc_free_context" fn(Context, c_int) -> c_int;
    set_timeout: c"smbc_setTimeout" fn(Context, c_int);
    set_user: c"smbc_setUser" fn(Context, *const c_char);
    set_authenticate: c"smbc_setFunctionAuthDataWithContext" fn(Context, Authenticate);
    open: c"smbc_getFunctionOpen" fn(Context) -> Open;
    read: c"smbc_getFunctionRead" fn(Context) -> Read;
    seek: c"smbc_getFunctionLseek" fn(Context) -> Seek;
    stat: c"smbc_getFunctionFstat" fn(Context) -> Stat;
    close: c"smbc_getFunctionClose" fn(Context) -> Close;
}

/// A file that is open on its server, for reading only.
pub struct SmbFile {
    calls: Calls,
    context: NonNull<c_void>,
    file: NonNull<c_void>,
    read: Read,
    seek: Seek,
    bytes: u64,
    /// The library's connection, where opening made exactly one.
    socket: Option<RawFd>,
    is_lost: bool,
}

impl Library {
    /// Loads it. Errors: `NotFound`: it is not installed. `Unsupported`: it lacks a call.
    pub fn load() -> io::Result<Library> {
        // SAFETY: the constructors of the library and of those below it (talloc, Kerberos, TLS)
        // are such as any process may run.
        Library::of(&unsafe { WANTED.load() }?)
    }

    /// Whether it can be loaded, found out in a child. Errors: those of [`Library::load`]; the
    /// child cannot be made, or did not survive the loading.
    pub fn look() -> io::Result<()> {
        WANTED.look(|| Library::load().map(drop))
    }

    fn of(loaded: &Loaded) -> io::Result<Library> {
        // SAFETY: functions of libsmbclient.h, the same in all versions that have them.
        Ok(Library { soname: loaded.soname, calls: unsafe { Calls::of(loaded)? } })
    }

    /// The name under which it was found.
    pub fn soname(&self) -> &'static str {
        self.soname
    }

    /// Opens a file by its URL (`smb://[user@]server[:port]/share/file`), whose server and port are
    /// given beside it: they are knocked at first, since the library sets no limit to making a
    /// connection. Every answer is waited for as long as `patience` says. Errors: those of
    /// connect(2) and of the library: no server, no such share or file, no right to read it, no
    /// answer in time; a file that is not a regular one (`InvalidInput`).
    pub fn open(
        self,
        url: &str,
        server: &str,
        port: Option<u16>,
        patience: Duration,
    ) -> io::Result<SmbFile> {
        reach(server, port.unwrap_or(PORT), patience)?;
        let (calls, text) = (self.calls, CString::new(url)?);
        let before = descriptors()?;
        let context = self.context(patience)?;
        // SAFETY: an initialised context has these functions, and each is called with a context of
        // ours, a text that outlives the call or the handle that it gave.
        let (open, stat, read, seek) = unsafe {
            let context = context.as_ptr();
            (
                (calls.open)(context),
                (calls.stat)(context),
                (calls.read)(context),
                (calls.seek)(context),
            )
        };
        // SAFETY: as above. What fails to open is left with its context to the end of the process,
        // as one of NFS is: requests may be on their way.
        let file = unsafe { open(context.as_ptr(), text.as_ptr(), libc::O_RDONLY, 0) };
        let file = NonNull::new(file).ok_or_else(io::Error::last_os_error)?;
        let mut facts = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: as above, and a place of ours of the structure's size, which zeroes fill validly.
        let facts = unsafe {
            match stat(context.as_ptr(), file.as_ptr(), facts.as_mut_ptr()) {
                0 => facts.assume_init(),
                _ => return Err(io::Error::last_os_error()),
            }
        };
        if facts.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(invalid(format!("{url} is not a regular file")));
        }
        let bytes = u64::try_from(facts.st_size).map_err(io::Error::other)?;
        let socket = connection(&before)?;
        Ok(SmbFile { calls, context, file, read, seek, bytes, socket, is_lost: false })
    }

    fn context(&self, patience: Duration) -> io::Result<NonNull<c_void>> {
        let calls = &self.calls;
        // SAFETY: takes nothing.
        let context = NonNull::new(unsafe { (calls.new_context)() })
            .ok_or_else(|| io::Error::other("libsmbclient has no memory for a context"))?;
        let milliseconds = patience.as_millis().clamp(1000, 3_600_000) as c_int;
        // SAFETY: a context of ours, a text that is copied, and a function of the type that the
        // library calls.
        let begun = unsafe {
            (calls.set_timeout)(context.as_ptr(), milliseconds);
            (calls.set_user)(context.as_ptr(), GUEST.as_ptr());
            (calls.set_authenticate)(context.as_ptr(), authenticate);
            (calls.init_context)(context.as_ptr())
        };
        match begun.is_null() {
            false => Ok(context),
            true => Err(io::Error::last_os_error()),
        }
    }
}

/// Fills in the password of a user that the URL names.
///
/// # Safety
/// The library calls it with texts that end with a zero byte, and room for as many bytes as is said.
unsafe extern "C" fn authenticate(
    _: Context,
    _: *const c_char,
    _: *const c_char,
    _: *mut c_char,
    _: c_int,
    user: *mut c_char,
    _: c_int,
    password: *mut c_char,
    room: c_int,
) {
    // SAFETY: the caller's texts.
    let is_guest = unsafe { CStr::from_ptr(user) } == GUEST;
    let word = std::env::var_os(PASSWORD).filter(|_| !is_guest).unwrap_or_default();
    let room = usize::try_from(room).unwrap_or(0);
    if word.len() < room {
        // SAFETY: it has room for these bytes and the zero behind them.
        unsafe {
            password.copy_from_nonoverlapping(word.as_bytes().as_ptr().cast(), word.len());
            password.add(word.len()).write(0);
        }
    }
}

/// Makes a connection within a time, and gives it up again.
fn reach(server: &str, port: u16, patience: Duration) -> io::Result<()> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{server} has no address"));
    for address in (server, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// This process's descriptors.
fn descriptors() -> io::Result<BTreeSet<RawFd>> {
    let all = std::fs::read_dir("/proc/self/fd")?;
    Ok(all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The TCP connection among the descriptors that were not there before, if there is one and no
/// other.
fn connection(before: &BTreeSet<RawFd>) -> io::Result<Option<RawFd>> {
    let now = descriptors()?;
    let is_connection = |descriptor: &&RawFd| {
        // SAFETY: it is borrowed for this question alone, and nothing closes it meanwhile; one that
        // is closed is an error of the kernel's.
        tcp::info(unsafe { BorrowedFd::borrow_raw(**descriptor) }).is_ok()
    };
    let mut made = now.difference(before).filter(is_connection);
    Ok(made.next().copied().filter(|_| made.next().is_none()))
}

impl SmbFile {
    /// Its size when it was opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads from an offset: one request and its answer. Fewer bytes than asked for at the file's
    /// end. Errors: what the library says; after a time-out or a lost connection every later read
    /// fails too.
    #[inline]
    pub fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (context, file) = (self.context.as_ptr(), self.file.as_ptr());
        let start = buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: an open file of this context, which has one user at a time (`&mut self`); the
        // buffer is ours and as long as the count says. The library keeps the offset by itself.
        let read = unsafe {
            match (self.seek)(context, file, offset as libc::off_t, libc::SEEK_SET) {
                0.. => (self.read)(context, file, start, buffer.len()),
                _ => -1,
            }
        };
        usize::try_from(read).map_err(|_| {
            self.is_lost = true;
            io::Error::last_os_error()
        })
    }

    /// The kernel's facts about the connection to the server. Errors: the connection is lost, it
    /// could not be distinguished from others, or the kernel does not report it.
    pub fn tcp(&self) -> io::Result<tcp::Info> {
        let descriptor = self.socket.filter(|_| !self.is_lost);
        let descriptor = descriptor.ok_or(io::ErrorKind::NotConnected)?;
        // SAFETY: the library keeps its socket open as long as the context lives and is not served,
        // which this borrow of the file prevents.
        tcp::info(unsafe { BorrowedFd::borrow_raw(descriptor) })
    }
}

impl Drop for SmbFile {
    fn drop(&mut self) {
        // A server that did not answer a read is not asked to close, which would be waited for as
        // well.
        if self.is_lost {
            return;
        }
        // SAFETY: the file and its context belong to this value alone.
        unsafe {
            let close = (self.calls.close)(self.context.as_ptr());
            if close(self.context.as_ptr(), self.file.as_ptr()) >= 0 {
                (self.calls.free_context)(self.context.as_ptr(), 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Library;
    use crate::scratch::{closed_port, loading};
    use std::ffi::c_int;
    use std::io::ErrorKind;
    use std::ptr::null_mut;
    use std::time::Duration;

    #[test]
    fn a_server_that_is_not_there_is_an_error_before_the_library_is_asked() {
        let _alone = loading();
        let library = match Library::load() {
            Ok(library) => library,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                return skips::part("library", error);
            }
        };
        let port = closed_port();
        let url = format!("smb://127.0.0.1:{port}/share/file");
        let error = library.open(&url, "127.0.0.1", Some(port), Duration::from_secs(1)).err();
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::ConnectionRefused));
    }

    #[test]
    fn only_a_user_that_was_named_has_a_password_and_never_more_than_there_is_room_for() {
        let told = |user: &str, room: usize| {
            let mut user: Vec<u8> = user.bytes().chain([0]).collect();
            let mut password = vec![b'?'; room];
            let (name, word) = (user.as_mut_ptr().cast(), password.as_mut_ptr().cast());
            // SAFETY: texts that end with a zero byte, and the room that is stated.
            unsafe {
                super::authenticate(
                    null_mut(),
                    c"server".as_ptr(),
                    c"share".as_ptr(),
                    null_mut(),
                    0,
                    name,
                    0,
                    word,
                    room as c_int,
                );
            }
            password
        };
        // The tests have no PASSWD: an empty word, or nothing where there is no room for its end.
        assert_eq!(told("guest", 2), b"\0?");
        assert_eq!(told("me", 2), b"\0?");
        assert_eq!(told("me", 0), b"");
    }
}
