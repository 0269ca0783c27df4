"""The kernel's tracepoints of one CPU, in a tracefs instance of our own: truth that none of plumb's code
has part in. Needs root."""
import collections
import ctypes
import os
import re
import signal
import sys
import tempfile

CLONE_NEWNS, MNT_DETACH, MS_PRIVATE_REC = 0x20000, 2, (1 << 18) | (1 << 14)
# `comm-pid [cpu] flags seconds.microseconds: event: fields`
LINE = re.compile(r"\s*(?P<comm>.*)-(?P<pid>\d+)\s+\[\d+\]\s+\S+\s+(?P<at>\d+\.\d+): (?P<name>\w+): ?(?P<rest>.*)")
SWITCH = re.compile(r"prev_comm=(?P<out_comm>.*) prev_pid=(?P<out>\d+) prev_prio=\S+ prev_state=(?P<state>\S+) "
                    r"==> next_comm=(?P<in_comm>.*) next_pid=(?P<in>\d+) next_prio")

Event = collections.namedtuple("Event", "at_ns name rest comm pid")
# An interrupt or a softirq from its entry to its exit; kind is `local_timer`, `irq 27 arch_timer`, …
Pair = collections.namedtuple("Pair", "start_ns end_ns kind")
# A task's stay on the CPU; state is what it was left in (R: it would have run on).
Stay = collections.namedtuple("Stay", "start_ns end_ns pid comm state")


class Instance:
    """Traces a CPU's interrupts, softirqs and switches while the `with` block runs; `events()` afterwards.
    Times are CLOCK_MONOTONIC_RAW, to the microsecond that the kernel prints. Neither the tracing of others
    nor any mount of this machine is touched, and the instance is removed however the block ends."""

    KIB = 32768

    def __init__(self, cpu):
        self.cpu, self.text = cpu, ""
        self.name = f"instances/plumb-agree-{os.getpid()}"

    def __enter__(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        self.root = detached_tracefs()
        remove_left_over(self.root)
        os.mkdir(self.name, dir_fd=self.root)
        try:
            self.write("tracing_on", "0")
            self.write("trace_clock", "mono_raw")
            # Room on this CPU only: a large machine has many.
            self.write(f"per_cpu/cpu{self.cpu}/buffer_size_kb", str(self.KIB))
            self.write("tracing_cpumask", mask(self.cpu))
            for events in ("irq_vectors", "irq", "ipi/ipi_entry", "ipi/ipi_exit", "sched/sched_switch"):
                # An architecture has one of `irq_vectors` and `ipi`, or neither.
                if events in ("irq", "sched/sched_switch") or self.exists(f"events/{events}/enable"):
                    self.write(f"events/{events}/enable", "1")
            self.write("tracing_on", "1")
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            self.write("tracing_on", "0")
            if kind is None:
                self.text = self.read(f"per_cpu/cpu{self.cpu}/trace")
                stats = dict(re.findall(r"(overrun|dropped events): (\d+)", self.read(f"per_cpu/cpu{self.cpu}/stats")))
                if any(int(count) for count in stats.values()):
                    sys.exit(f"the kernel's trace is not whole: {stats}; run for less time")
        finally:
            self.remove()

    def events(self):
        events = []
        for line in self.text.splitlines():
            if line.startswith("#"):
                continue
            match = LINE.match(line)
            if not match:
                sys.exit(f"a line of the kernel's trace that this script does not know: {line!r}")
            seconds, micros = match["at"].split(".")
            at_ns = int(seconds) * 10**9 + int(micros.ljust(9, "0"))
            events.append(Event(at_ns, match["name"], match["rest"], match["comm"].strip(), int(match["pid"])))
        return events

    def remove(self):
        os.rmdir(self.name, dir_fd=self.root)
        os.close(self.root)

    def open(self, file, flags):
        return os.open(f"{self.name}/{file}", flags, dir_fd=self.root)

    def exists(self, file):
        try:
            os.close(self.open(file, os.O_RDONLY))
            return True
        except FileNotFoundError:
            return False

    def write(self, file, text):
        with os.fdopen(self.open(file, os.O_WRONLY | os.O_TRUNC), "w") as opened:
            opened.write(text)

    def read(self, file):
        with os.fdopen(self.open(file, os.O_RDONLY)) as opened:
            return opened.read()


def tracers():
    """Tracers of this kernel by name (`osnoise`, …)."""
    root = detached_tracefs()
    try:
        with os.fdopen(os.open("available_tracers", os.O_RDONLY, dir_fd=root)) as opened:
            return opened.read().split()
    finally:
        os.close(root)


def detached_tracefs():
    """A descriptor of tracefs's root, mounted in a mount namespace of this process's own and detached at once:
    nothing is left to unmount."""
    libc = ctypes.CDLL(None, use_errno=True)

    def must(result, what):
        if result != 0:
            sys.exit(f"{what}: {os.strerror(ctypes.get_errno())} (the kernel's tracepoints need root)")

    must(libc.unshare(CLONE_NEWNS), "unshare")
    must(libc.mount(None, b"/", None, ctypes.c_ulong(MS_PRIVATE_REC), None), "mount --make-rprivate /")
    with tempfile.TemporaryDirectory() as point:
        must(libc.mount(b"tracefs", point.encode(), b"tracefs", ctypes.c_ulong(0), None), "mount tracefs")
        root = os.open(point, os.O_RDONLY | os.O_DIRECTORY)
        must(libc.umount2(point.encode(), MNT_DETACH), "umount tracefs")
    return root


def remove_left_over(root):
    """Instances of runs that were killed and could not remove their own."""
    instances = os.open("instances", os.O_RDONLY, dir_fd=root)
    for name in os.listdir(instances):
        match = re.fullmatch(r"plumb-agree-(\d+)", name)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            os.rmdir(name, dir_fd=instances)
    os.close(instances)


def mask(cpu):
    """A CPU as the kernel's mask: groups of 32 bits, highest first."""
    return ",".join([f"{1 << cpu % 32:x}"] + ["00000000"] * (cpu // 32))


def pairs(events):
    """Every interrupt and softirq that has both its entry and its exit."""
    open_at, found = {}, []
    for event in events:
        if event.name.endswith("_entry"):
            open_at[key(event)] = event
        elif event.name.endswith("_exit"):
            entry = open_at.pop(key(event), None)
            if entry:
                found.append(Pair(entry.at_ns, event.at_ns, kind(entry)))
    return sorted(found)


def key(event):
    """What an exit has in common with its entry. The same does not nest on a CPU."""
    number = re.match(r"(?:irq|vec)=(\d+)", event.rest)
    return event.name.rsplit("_", 1)[0], number and number[1]


def kind(entry):
    if entry.name == "irq_handler_entry":
        return "irq " + re.sub(r"irq=(\d+) name=", r"\1 ", entry.rest)
    if entry.name == "softirq_entry":
        return "softirq " + re.search(r"action=(\w+)", entry.rest)[1]
    return entry.name.removesuffix("_entry")


def is_timer(pair):
    """The CPU's own timer, by its vector (x86-64) or its handler (aarch64)."""
    return pair.kind == "local_timer" or pair.kind.startswith("irq ") and "arch_timer" in pair.kind


def stays(events):
    """Who was on the CPU from when to when; the first and the last stay, cut by the trace, are left out."""
    found, last = [], None
    for event in events:
        if event.name != "sched_switch":
            continue
        match = SWITCH.match(event.rest)
        if last and last[1] == int(match["out"]):
            found.append(Stay(last[0], event.at_ns, last[1], last[2], match["state"]))
        last = event.at_ns, int(match["in"]), match["in_comm"]
    return found
