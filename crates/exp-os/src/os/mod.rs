//! The operating system's services.

mod events;

bench::family!("os", "what the kernel's basic services cost: system calls, processes, threads, switches, messages, signals, time slices", hidden: false, [
    syscall,
    process,
    thread,
    switch,
    ipc,
    signal,
    schedule,
    timer,
    memfd_copy,
]);
