//! A mapping as mmap(2) gives it.

use std::io;
use std::ptr::NonNull;

/// Memory at an address of the kernel's choice, unmapped on drop. It gives out its address only:
/// whoever uses it answers for what lies there.
#[derive(Debug)]
pub(crate) struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns its mapping, and reads and writes nothing of it.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `bytes` of the open file `fd` from `offset` on, or of none (-1). Errors of mmap(2).
    pub(crate) fn new(
        bytes: usize,
        protection: i32,
        flags: i32,
        fd: i32,
        offset: u64,
    ) -> io::Result<Mapped> {
        assert!(flags & libc::MAP_FIXED == 0, "the address is the kernel's choice");
        let offset = offset as libc::off_t;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast())
            .ok_or_else(|| io::Error::other("the kernel mapped at address 0"))?;
        Ok(Mapped { start, bytes })
    }

    /// Memory of no file, to read and write, that children made after it share, all touched.
    pub(crate) fn shared(bytes: usize) -> io::Result<Mapped> {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        Mapped::new(bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    }

    /// Addresses that nothing else takes, and that cannot be accessed.
    pub(crate) fn reserved(bytes: usize) -> io::Result<Mapped> {
        Mapped::new(bytes, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it exists.
        unsafe { libc::munmap(self.as_ptr().cast(), self.bytes) };
    }
}
