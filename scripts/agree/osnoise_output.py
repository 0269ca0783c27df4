#!/usr/bin/env python3
"""What `rtla osnoise top -q` and `rtla osnoise hist` print, as values. Columns are found by their titles,
as later versions of rtla print further ones.

Usage: osnoise_output.py top|hist, the output on standard input; prints JSON."""
import json
import re
import sys

# Title in the table of `top`: name here. All times are of all periods together, in us.
COLUMNS = {"CPU": "cpu", "Period": "periods", "Runtime": "runtime_us", "Noise": "noise_us",
           "% CPU Aval": "available_percent", "Max Noise": "max_noise_us", "Max Single": "max_single_us",
           "HW": "hardware", "NMI": "nmi", "IRQ": "irq", "Softirq": "softirq", "Thread": "thread"}
# Columns that count noises by what they were.
KINDS = ("hardware", "nmi", "irq", "softirq", "thread")


def top(text):
    """One value per CPU, by CPU: periods, runtime and noise in us, the CPU's available share in percent, the
    longest noise of a period and the longest single one in us, and how many noises were of which kind
    (`hardware`: the tracer saw nothing of the kernel's run)."""
    lines = plain(text)
    at = next((number for number, line in enumerate(lines) if line.split()[:2] == ["CPU", "Period"]), None)
    if at is None:
        raise ValueError(f"no table of `rtla osnoise top` in:\n{text}")
    found = re.findall("|".join(map(re.escape, sorted(COLUMNS, key=len, reverse=True))), lines[at])
    names = [COLUMNS[title] for title in found]
    rows = {}
    for line in lines[at + 1:]:
        words = line.split()
        if not words or not words[0].isdigit():
            break
        if len(words) != len(names):
            raise ValueError(f"{len(names)} columns ({names}), not: {line}")
        row = dict(zip(names, (float(word.lstrip("#")) for word in words)))
        whole = {name: int(value) if value.is_integer() and name != "available_percent" else value
                 for name, value in row.items()}
        rows[whole.pop("cpu")] = whole
    if not rows:
        raise ValueError(f"a table without CPUs:\n{text}")
    return rows


def hist(text):
    """By CPU: `buckets`, how many noises were at least so many us and less than the next bucket's (empty ones
    of all CPUs left out), `over` (longer than the last bucket), `count`, and `min`, `avg`, `max` as rtla gives
    them."""
    rows = {}
    cpus = []
    for line in plain(text):
        words = line.split()
        if words[:1] == ["Index"]:
            cpus = [int(word.removeprefix("CPU-")) for word in words[1:]]
            rows = {cpu: {"buckets": {}} for cpu in cpus}
        elif cpus and len(words) == 1 + len(cpus) and words[0].isdigit():
            for cpu, count in zip(cpus, words[1:]):
                rows[cpu]["buckets"][int(words[0])] = int(count)
        elif cpus and len(words) == 1 + len(cpus) and words[0] in ("over:", "count:", "min:", "avg:", "max:"):
            for cpu, value in zip(cpus, words[1:]):
                # A CPU without noise has dashes where there is nothing to tell.
                rows[cpu][words[0][:-1]] = None if value == "-" else float(value)
        elif words[:1] == ["ALL:"]:
            break
    if not rows or any("max" not in row for row in rows.values()):
        raise ValueError(f"no whole histogram of `rtla osnoise hist` in:\n{text}")
    return rows


def plain(text):
    """Lines without the terminal's colours."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).splitlines()


if __name__ == "__main__":
    forms = {"top": top, "hist": hist}
    if len(sys.argv) != 2 or sys.argv[1] not in forms:
        sys.exit(__doc__)
    try:
        json.dump(forms[sys.argv[1]](sys.stdin.read()), sys.stdout, indent=1)
    except ValueError as error:
        sys.exit(f"osnoise_output.py: {error}")
