//! Programs for children to execute, with their arguments ready for the system call.

use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

/// A program: its path, its arguments, and an empty environment. One that was made from bytes has
/// no name in any directory: its path is that of the open file, and it goes when that is closed.
#[derive(Debug)]
pub struct Program {
    path: CString,
    /// What `pointers` points to.
    _arguments: Vec<CString>,
    /// To the arguments, ended by a null pointer.
    pointers: Vec<*const libc::c_char>,
    /// Ended by a null pointer, which is all there is.
    environment: [*const libc::c_char; 1],
    /// Kept open for its path.
    _file: Option<File>,
}

impl Program {
    /// The program at a path, with these arguments (the first is its name).
    pub fn at_path(path: &CStr, arguments: &[&CStr]) -> Program {
        Program::new(path.to_owned(), arguments, None)
    }

    /// A program of these bytes in a file that is in memory only (memfd_create(2)). Errors: those
    /// of memfd_create(2): EACCES where vm.memfd_noexec is 2.
    pub fn in_memory(bytes: &[u8]) -> io::Result<Program> {
        let create = |flags| memfd_create(c"plumb-program", MemfdFlags::CLOEXEC | flags);
        // It may be executed, whatever vm.memfd_noexec takes as given.
        let made = match create(MemfdFlags::EXEC) {
            // A kernel before 6.3 does not know the flag and lets every such file be executed.
            Err(Errno::INVAL) => create(MemfdFlags::empty()),
            other => other,
        };
        let mut file = File::from(made?);
        file.write_all(bytes)?;
        Ok(Program::from_file(file))
    }

    /// A program of these bytes in a new file of `directory`, whose name is removed at once.
    /// Errors: the file cannot be made there. Whether it may be executed is seen when it is (EACCES
    /// on a file system mounted `noexec`).
    pub fn in_directory(bytes: &[u8], directory: &Path) -> io::Result<Program> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("plumb-program-{}-{count}", std::process::id()));
        let mut writing = OpenOptions::new();
        writing.write(true).create_new(true).mode(0o700);
        let mut file = writing.open(&path)?;
        // A file that is open for writing cannot be executed, so it is opened anew for reading.
        let opened = file.write_all(bytes).and_then(|()| {
            drop(file);
            File::open(&path)
        });
        std::fs::remove_file(&path)?;
        Ok(Program::from_file(opened?))
    }

    fn from_file(file: File) -> Program {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path =
            CString::new(path).expect("a path made of letters and a number has no zero byte");
        Program::new(path, &[c"plumb-program"], Some(file))
    }

    fn new(path: CString, arguments: &[&CStr], file: Option<File>) -> Program {
        let arguments: Vec<CString> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let pointers = arguments.iter().map(|text| text.as_ptr());
        let pointers = pointers.chain([ptr::null()]).collect();
        Program { path, _arguments: arguments, pointers, environment: [ptr::null()], _file: file }
    }

    pub(super) fn path(&self) -> *const libc::c_char {
        self.path.as_ptr()
    }

    /// As execve(2) takes it; the kernel and the C library do not write to it.
    pub(super) fn arguments(&self) -> *const *mut libc::c_char {
        self.pointers.as_ptr().cast()
    }

    /// The same as [`Program::arguments`].
    pub(super) fn environment(&self) -> *const *mut libc::c_char {
        self.environment.as_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::Program;
    use crate::clock::monotonic_raw_ns;
    use crate::elf::{Machine, static_program};
    use crate::process::{STATUS, Watch};

    #[test]
    fn a_program_in_a_directory_leaves_no_name_there() {
        let directory = tempfile::tempdir().expect("temporary files can be made");
        let bytes = static_program(Machine::HERE, STATUS);
        let program = Program::in_directory(&bytes, directory.path()).expect("is written");
        let left = std::fs::read_dir(directory.path()).expect("is there").count();
        assert_eq!(left, 0);
        let watch = Watch::new(monotonic_raw_ns).expect("maps");
        match watch.spawn(&program) {
            Ok(_) => {}
            // Temporary files may be mounted noexec.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EACCES), "{error}"),
        }
        Program::in_directory(&bytes, &directory.path().join("none"))
            .expect_err("no such directory");
    }
}
