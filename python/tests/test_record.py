import gzip
import json
import statistics
import zlib
from pathlib import Path

import pytest

import plumb_record
from plumb_record import Damaged, NewerFormat, NotPlumb, read_record

RECORDS = Path(__file__).resolve().parents[2] / "tests" / "records"


@pytest.mark.parametrize("path", sorted(RECORDS.glob("*.jsonl*")), ids=lambda path: path.name)
def test_records_of_every_format_are_read(path):
    record = read_record(path)
    assert record.name
    for samples in record.samples:
        assert all(isinstance(value, float) for value in samples.values)
        assert not samples.width or len(samples.width) == len(samples.values)
        assert record.unit(samples.experiment, samples.metric)
    for prediction in record.predictions:
        low, likely, high = prediction.range or (0, 0, 0)
        assert low <= likely <= high
    assert record.footer is not None and not record.torn


def test_a_median_of_rounds_is_near_the_printed_value():
    record = read_record(RECORDS / "standard.jsonl.gz")
    rounds = record.samples_of("clock.read", {"clock": "rdtsc"}, "cost")
    assert len(rounds) >= 6
    values = [statistics.median(of.values) for of in rounds if of.visit == 0]
    range = next(of.range for of in record.predictions if of.case == {"clock": "rdtsc"} and of.metric == "cost")
    assert range is not None and range[0] / 3 < statistics.median(values) < range[2] * 3


HEADER = {"event": "header", "format": 6, "plumb": "0", "run": "r"}
SAMPLES = {"event": "samples", "series": "a.b/c", "round": 1, "case": {"n": 1}, "metric": "m", "k": 2}
ROUND = {
    "event": "round", "series": "a.b/c", "n": 1, "segment": 0, "at_s": 0, "window_ns": 1, "status": "ok",
    "cpus": [0], "disturbed": [], "environment": {},
}  # fmt: skip


def sealed(*events):
    """The lines of a record, as plumb numbers and seals them."""
    start = 0
    for number, event in enumerate(events, 1):
        text = b'%s,"line":%d' % (json.dumps(event)[:-1].encode(), number)
        yield text + b',"crc":"%08x"}\n' % zlib.crc32(text, start)
        start = start or zlib.crc32(text)


def written(path, *events, end="\n"):
    path.write_text(b"".join(sealed(*events)).decode().rstrip("\n") + end)
    return path


@pytest.mark.parametrize(
    "fields, values",
    [
        ({"of": "quartets", "n": [10.0, 20.0], "two_n": [18.0, 16.0]}, [2.0, -1.0]),
        ({"of": "event", "step": 0.5, "steps": [4, 2]}, [2.0, 1.0]),
        ({"of": "event", "step": 0.5, "ascending": [4, 0, 2]}, [2.0, 2.0, 3.0]),
        ({"of": "batch", "values": [3.0]}, [3.0]),
    ],
)
def test_values_by_kind(tmp_path, fields, values):
    record = read_record(written(tmp_path / "r", HEADER, {**SAMPLES, **fields}, ROUND))
    assert record.samples_of("a.b", {"n": 1}, "m")[0].values == values


def test_samples_without_the_end_of_their_round_do_not_count(tmp_path):
    samples = {**SAMPLES, "of": "batch", "values": [1.0]}
    again = {**SAMPLES, "of": "batch", "values": [2.0]}
    killed = read_record(written(tmp_path / "r", HEADER, samples))
    assert not killed.samples and not killed.complete
    resumed = read_record(written(tmp_path / "r", HEADER, samples, {"event": "segment"}, again, ROUND))
    assert [of.values for of in resumed.samples] == [[2.0]]
    void = read_record(written(tmp_path / "r", HEADER, samples, {**ROUND, "status": "void"}))
    assert not void.samples and len(void.rounds) == 1


def test_a_torn_end_is_no_damage_and_a_broken_line_is(tmp_path):
    torn = written(tmp_path / "r", HEADER, ROUND, end='\n{"event":"rou')
    assert read_record(torn).torn
    torn.write_text(torn.read_text() + "\n" + json.dumps(ROUND) + "\n")
    with pytest.raises(Damaged) as damaged:
        read_record(torn)
    assert damaged.value.line == 3


def test_a_changed_line_is_left_out_and_named(tmp_path):
    one = {**SAMPLES, "of": "batch", "values": [1.25]}
    other = {**SAMPLES, "metric": "other", "of": "batch", "values": [2.5]}
    lines = list(sealed(HEADER, {"event": "calibration", "source": "tsc"}, one, other, ROUND))
    path = tmp_path / "r"

    def read(number=None, digit=b"", by=b""):
        changed = [line.replace(digit, by, 1) if at == number else line for at, line in enumerate(lines, 1)]
        path.write_bytes(b"".join(changed))
        record = read_record(path)
        return record.damaged, [of.metric for of in record.samples], record.header.get("calibration", {}).get("source")

    assert read() == ([], ["m", "other"], "tsc")
    assert read(1, b'"plumb": "0"', b'"plumb": "1"') == ([1], ["m", "other"], "tsc")
    assert read(2, b"tsc", b"tsd") == ([2], ["m", "other"], None)
    assert read(3, b"1.25", b"1.35") == ([3], ["other"], "tsc")
    assert read(3, b"[1.25]", b"[1.25\x00") == ([3], ["other"], "tsc")
    assert read(5, b'"n": 1', b'"n": 2') == ([5], [], "tsc")
    assert read(4, b',"crc":', b',"crd":') == ([4], ["m"], "tsc")


def test_lines_that_are_missing_doubled_or_foreign_are_named(tmp_path):
    one = {**SAMPLES, "of": "batch", "values": [1.25]}
    again = {**ROUND, "n": 2}
    lines = list(sealed(HEADER, one, ROUND, {**one, "round": 2}, again))
    foreign = list(sealed({**HEADER, "run": "s"}, one, ROUND, {**one, "round": 2}, again))
    path = tmp_path / "r"

    def read(*lines):
        path.write_bytes(b"".join(lines))
        record = read_record(path)
        return record.damaged, [of.round for of in record.samples], [of.n for of in record.rounds]

    assert read(*lines) == ([], [1, 2], [1, 2])
    assert read(*lines[:1], *lines[2:]) == ([2], [2], [1, 2])
    assert read(*lines[:2], *lines[3:]) == ([3], [2], [2])
    assert read(*lines[:3], *lines[1:]) == ([4, 5], [1, 2], [1, 2])
    assert read(*lines[:2], *foreign[1:3], *lines[2:]) == ([3, 4], [1, 2], [1, 2])
    assert read(*lines[:2], foreign[2], *lines[3:]) == ([3], [2], [2])


def test_other_files_are_refused(tmp_path):
    for text in ("", "{}\n", "[1]\n", "plumb\n"):
        (tmp_path / "r").write_text(text)
        with pytest.raises(NotPlumb):
            read_record(tmp_path / "r")
    with pytest.raises(NotPlumb, match="development version"):
        read_record(written(tmp_path / "r", {**HEADER, "format": 4}))
    with pytest.raises(NewerFormat):
        read_record(written(tmp_path / "r", {**HEADER, "format": 99}))


def test_a_packed_record_is_the_same(tmp_path):
    plain = written(tmp_path / "r", HEADER, ROUND)
    (tmp_path / "r.gz").write_bytes(gzip.compress(plain.read_bytes()))
    assert read_record(tmp_path / "r.gz") == read_record(plain)


def test_a_record_that_travelled_is_the_same_or_refused(tmp_path):
    lines = b"".join(sealed(HEADER, ROUND))
    path = tmp_path / "r"

    def read(data):
        path.write_bytes(data)
        return read_record(path)

    plain = read(lines)
    assert not plain.damaged and len(plain.rounds) == 1
    for same in (lines.replace(b"\n", b"\r\n"), lines[:-1], b"\xef\xbb\xbf" + lines, gzip.compress(lines)):
        assert read(same) == plain
    for other, word in (
        (lines.decode().encode("utf-16"), "UTF-16"),
        (gzip.compress(lines)[:-12], "packed"),
        (b"PK\x03\x04", "unzip"),
    ):
        with pytest.raises(NotPlumb, match=word):
            read(other)
    with pytest.raises(Damaged, match="all lines"):
        read(lines.replace(b'"cpus": ', b'"cpus":'))


def test_the_version_is_that_of_the_package():
    project = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text()
    assert f'version = "{plumb_record.__version__}"' in project
