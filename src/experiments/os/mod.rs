//! The operating system's services.

crate::family!("os", "system calls, processes, threads, switches", hidden: false, [
    syscall,
]);
