//! The operating system's services.

crate::family!("os", "what the kernel's basic services cost: system calls, processes", hidden: false, [
    process,
    syscall,
]);
