//! The operating system's services.

crate::family!("os", "what the kernel's basic services cost: system calls", hidden: false, [
    ipc,
    syscall,
]);
