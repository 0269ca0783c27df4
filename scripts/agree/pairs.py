"""Paired comparison of plumb with a rival: alternating ABBA, ratio pair by pair (METHOD 7)."""
import json
import math
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLUMB = os.environ.get("PLUMB", os.path.join(ROOT, "target", "release", "plumb"))


def plumb(selector, metric, cpu, preset="quick", extra=(), of="value"):
    """One plumb run of one case: the figure's value, or with of="mean" its samples' mean."""
    command = [PLUMB, "run", selector, "--preset", preset, "--cpu", str(cpu), "--json",
               "--out", f"/tmp/plumb-agree-{os.getpid()}.jsonl", *extra]
    try:
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    finally:
        if os.path.exists(command[command.index("--out") + 1]):
            os.remove(command[command.index("--out") + 1])
    figures = [f for f in json.loads(out)["figures"] if f.get("metric") == metric]
    if len(figures) != 1 or figures[0]["outcome"] != "measured":
        sys.exit(f"{selector}: expected one measured {metric}, got {figures}")
    return {"value": lambda figure: figure["value"],
            "mean": lambda figure: figure["stats"]["mean"]}[of](figures[0])


def interval(ratios):
    """Exact order-statistic interval of the median, at least 95 %."""
    values, n = sorted(ratios), len(ratios)
    rank = 0
    tail = lambda k: sum(math.comb(n, i) for i in range(k + 1)) / 2**n
    while rank + 1 < n / 2 and 1 - 2 * tail(rank + 1) >= 0.95:
        rank += 1
    if 1 - 2 * tail(rank) < 0.95:
        return None
    return values[rank], values[n - 1 - rank]


def median(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def compare(name, ours, theirs, unit, pairs=9):
    """Runs A B, B A, A B …; prints both and the ratio ours / theirs with its interval."""
    ratios = []
    for pair in range(pairs):
        if pair % 2 == 0:
            a, b = ours(), theirs()
        else:
            b, a = theirs(), ours()
        ratios.append(a / b)
        print(f"  pair {pair + 1}: plumb {a:.4g} {unit}, rival {b:.4g} {unit}, ratio {a / b:.3f}", flush=True)
    return told(name, ratios)


def told(name, ratios):
    """Prints and returns the median of ratios and their interval."""
    low_high = interval(ratios)
    text = "none below six pairs" if low_high is None else f"[{low_high[0]:.3f}, {low_high[1]:.3f}]"
    print(f"{name}: ratio {median(ratios):.3f}, 95 % interval {text}, {len(ratios)} pairs")
    return median(ratios), low_high


def goal(name, ratios, sense):
    """Prints the ratios and whether the goal is met (METHOD 7): ">=" when the interval's upper end reaches
    1.00 with the median within 2 %, "<=" when its lower end does."""
    middle, low_high = told(name, ratios)
    if low_high is None:
        print(f"{name}: not judged, {len(ratios)} pairs are too few")
        return False
    met = (low_high[1] >= 1.0 and middle >= 0.98) if sense == ">=" else (low_high[0] <= 1.0 and middle <= 1.02)
    print(f"{name}: goal {sense} 1.00 {'met' if met else 'NOT MET'}")
    return met


def agree(name, ratios):
    """Prints the ratios and whether their median is within 5 % of 1.00."""
    middle, _ = told(name, ratios)
    met = abs(middle - 1.0) <= 0.05
    print(f"{name}: {'agrees' if met else 'DOES NOT AGREE'} within 5 %")
    return met
