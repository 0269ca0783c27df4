import gzip
import json
import os
import pathlib
import subprocess

import pytest

from plumb_record import NewerFormat, NotPlumb, read_result
from plumb_record.result import FORMAT

FIGURE = {
    "experiment": "os.syscall", "case": {"call": "getpid"}, "at": {}, "outcome": "measured", "reason": "converged",
    "metric": "latency", "unit": "ns", "better": "lower", "kind": "os", "value": 100.0, "ci": [99.0, 101.0],
    "confidence": 0.95, "condition": "alone", "cycles": 400.0, "verdict": "within",
    "prediction": {"low": 50.0, "likely": 90.0, "high": 200.0, "because": "entry and exit"},
    "derived_prediction": None, "derived_verdict": None,
}  # fmt: skip
ABSENT = {"experiment": "fs.remote", "case": {}, "outcome": "skipped", "reason": "no directory", "needed": "--dir"}
RESULT = {
    "format": 3, "plumb": "0.1.0", "run": {"name": "r"}, "host": {}, "environment": {},
    "figures": [FIGURE, ABSENT],
    "findings": [{"severity": "note", "cause": "smt", "about": "run", "text": "two threads a core"}],
}  # fmt: skip


def test_figures_are_typed():
    result = read_result(RESULT)
    figure = result.figure("os.syscall", "latency", call="getpid")
    assert (figure.value, figure.ci, figure.cycles) == (100.0, (99.0, 101.0), 400.0)
    assert figure.prior is not None and figure.prior.likely == 90.0
    assert figure.case_text() == "call=getpid"
    assert [of.metric for of in result.measured()] == ["latency"]
    assert not list(result.measured("os.signal"))
    assert result.findings[0].cause == "smt"
    with pytest.raises(KeyError):
        result.figure("os.syscall", "latency", call="getppid")


RECORDS = pathlib.Path(__file__).parents[2] / "tests" / "versions"


@pytest.mark.skipif(not RECORDS.is_dir(), reason="the package was unpacked without plumb's repository")
@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_every_version_is_read(version):
    raw = json.loads(gzip.decompress((RECORDS / f"result-{version}.json.gz").read_bytes()))
    result = read_result(raw)
    assert raw["format"] == version
    assert len(list(result.measured())) > 5 and result.findings
    assert all(figure.unit for figure in result.measured())


def test_other_files_are_refused(tmp_path):
    for text in ("", "[]", "{}", '{"format": "3"}'):
        (tmp_path / "r").write_text(text)
        with pytest.raises(NotPlumb):
            read_result(tmp_path / "r")
    with pytest.raises(NewerFormat):
        read_result({**RESULT, "format": 99})


def test_a_table_for_pandas():
    pytest.importorskip("pandas")
    frame = read_result(RESULT).to_frame()
    assert list(frame[frame.outcome == "measured"]["call"]) == ["getpid"]
    assert frame["ci_high"][0] == 101.0


@pytest.mark.skipif("PLUMB" not in os.environ, reason="PLUMB names no binary")
def test_what_plumb_writes_today(tmp_path):
    plumb = os.environ["PLUMB"]
    out = subprocess.run(
        [plumb, "report", "published/r1-i5-2557m", "--format", "json"], check=True, capture_output=True, cwd=tmp_path
    )
    raw = json.loads(out.stdout)
    result = read_result(raw)
    assert len(result.figures) == len(raw["figures"]) and list(result.measured())
