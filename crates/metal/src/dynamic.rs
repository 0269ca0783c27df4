//! Libraries that are loaded when they are asked for.

use std::ffi::{CStr, CString, c_void};
use std::io;
use std::ptr::NonNull;

use crate::process::{Child, Ending};

/// What a child that tries to load a library ends with.
const LOADS: i32 = 0;
const ABSENT: i32 = 1;
const UNUSABLE: i32 = 2;

/// Whether the C library is part of this binary. It must load no other then: that would bring a second
/// C library along.
const IS_STATIC: bool = cfg!(target_feature = "crt-static");

/// A library, and under which names it is installed.
pub(crate) struct Wanted {
    /// What its makers call it.
    pub(crate) name: &'static str,
    /// File names of versions that will do, the newest first.
    pub(crate) sonames: &'static [&'static str],
    /// These versions in words.
    pub(crate) versions: &'static str,
}

/// One that stays loaded for the rest of the process.
pub(crate) struct Loaded {
    pub(crate) soname: &'static str,
    handle: NonNull<c_void>,
    versions: &'static str,
}

impl Wanted {
    /// Loads it. Errors: `NotFound`: it is not installed.
    ///
    /// # Safety
    /// Any process may run the constructors of the library and of those below it.
    pub(crate) unsafe fn load(&self) -> io::Result<Loaded> {
        for soname in self.sonames.iter().filter(|_| !IS_STATIC) {
            let name = CString::new(*soname)?;
            // SAFETY: the name ends with a zero byte, and the caller vouches for what it names.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            if let Some(handle) = NonNull::new(handle) {
                return Ok(Loaded { soname, handle, versions: self.versions });
            }
        }
        Err(self.absent())
    }

    /// Whether it can be loaded, found out in a child: what it brings along (Kerberos, TLS) and
    /// what those do when they are loaded stays out of this process. Errors: those of `load`; the
    /// child cannot be made, or did not survive the loading.
    pub(crate) fn look(&self, load: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let child = Child::fork(|| match load() {
            Ok(()) => LOADS,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ABSENT,
            Err(_) => UNUSABLE,
        })?;
        let Wanted { name, versions, .. } = self;
        match child.wait()? {
            Ending::Exited(LOADS) => Ok(()),
            Ending::Exited(ABSENT) => Err(self.absent()),
            Ending::Exited(UNUSABLE) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("the {name} that is installed lacks calls that {versions} have"),
            )),
            ending => Err(io::Error::other(format!("a process that loaded {name} ended {ending}"))),
        }
    }

    fn absent(&self) -> io::Error {
        let told = match IS_STATIC {
            true => format!(
                "this binary of plumb is linked statically and cannot load {}; the one of the \
                 packages can",
                self.name
            ),
            false => {
                format!("{} is not installed (none of {})", self.name, self.sonames.join(", "))
            }
        };
        io::Error::new(io::ErrorKind::NotFound, told)
    }
}

impl Loaded {
    /// A symbol. Errors: `Unsupported`: the library lacks it.
    pub(crate) fn find(&self, name: &CStr) -> io::Result<NonNull<c_void>> {
        // SAFETY: a library that stays loaded and a name that ends with a zero byte.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) }).ok_or_else(|| {
            let (soname, name) = (self.soname, name.to_string_lossy());
            let told = format!("{soname} lacks {name}, which {} have", self.versions);
            io::Error::new(io::ErrorKind::Unsupported, told)
        })
    }
}

/// A symbol as a function.
///
/// # Safety
/// The symbol is a function of the type `F`, which is a function pointer.
pub(crate) unsafe fn function<F: Copy>(symbol: NonNull<c_void>) -> F {
    const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
    // SAFETY: the sizes are equal, and the caller vouches for the type.
    unsafe { std::mem::transmute_copy(&symbol) }
}

/// The calls of a library: the field and its type, the symbol.
macro_rules! calls {
    ($($field:ident: $symbol:literal fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The library's functions.
        #[derive(Clone, Copy)]
        struct Calls {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Calls {
            /// # Safety
            /// Each symbol of the library is a function with the arguments of its field.
            unsafe fn of(loaded: &crate::dynamic::Loaded) -> std::io::Result<Calls> {
                // SAFETY: the caller vouches for the types.
                unsafe {
                    Ok(Calls { $($field: crate::dynamic::function(loaded.find($symbol)?)),* })
                }
            }
        }
    };
}
pub(crate) use calls;
