"""The record of a run: append-only JSON Lines."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

from .errors import Damaged, NewerFormat, NotPlumb

#: The newest format of records that this package reads.
FORMAT = 6
#: The first format that was released.
FIRST_FORMAT = 5
#: From this format on each line has its number, and its checksum begins with the header's.
NUMBERED_FORMAT = 6

Json = Dict[str, Any]
Case = Mapping[str, Union[str, int]]
Key = Tuple[str, Tuple[Tuple[str, Union[str, int]], ...], str]


def key(experiment: str, case: Case, metric: str) -> Key:
    """A figure's key in a form that can be a dictionary's key."""
    return experiment, tuple(case.items()), metric


@dataclass(frozen=True)
class Samples:
    """The samples of one figure in one round."""

    experiment: str
    series: str
    round: int
    case: Case
    metric: str
    #: In the metric's unit, in the order of the record. A quartet's value is the cost of one operation in ns
    #: and may be negative.
    values: List[float]
    #: ``event``, ``quartets`` or ``batch``: what one value is.
    of: str
    #: The visit of the case within its round, from 0. A figure's value as found uses visit 0.
    visit: int
    #: Operations a cycle at the slower of the probes around each sample, 0 if unknown; empty without probes.
    width: List[float]
    #: The core's clock at each sample, in MHz, 0 if unknown; empty without probes and in older records.
    core_mhz: List[int]
    #: The core's clock while the case ran, in Hz, or the median of ``core_mhz`` if it moved; None if unknown.
    core_hz: Optional[float]
    quantities: Mapping[str, float]


@dataclass(frozen=True)
class Histogram:
    """A distribution of one figure in one round."""

    experiment: str
    series: str
    round: int
    case: Case
    metric: str
    #: Pairs of a value in the metric's unit and the count of events.
    buckets: List[Tuple[float, int]]
    #: Events beyond the largest bucket.
    above: int


@dataclass(frozen=True)
class Trace:
    """Rows over time."""

    experiment: str
    series: str
    round: int
    case: Case
    kind: str
    columns: List[str]
    rows: List[List[float]]
    dropped: int


@dataclass(frozen=True)
class Prediction:
    """What plumb predicted for a figure before it measured it."""

    experiment: str
    case: Case
    metric: str
    #: ``prior``: from the machine's description; ``derived``: from earlier figures of the run.
    of: str
    #: Low, likely and high in the metric's unit; None without a prediction.
    range: Optional[Tuple[float, float, float]]
    because: str


@dataclass(frozen=True)
class Round:
    """One round of a series."""

    experiment: str
    series: str
    n: int
    segment: int
    at_s: float
    window_ns: float
    #: Whether the round counts. Samples of a void round do not.
    ok: bool
    cpus: List[int]
    #: Reasons; empty for an undisturbed round.
    disturbed: List[str]
    environment: Mapping[str, Any]


@dataclass
class Record:
    """A run: what was predicted, and what was measured in the rounds that count."""

    header: Json
    plan: Optional[Json] = None
    predictions: List[Prediction] = field(default_factory=list)
    rounds: List[Round] = field(default_factory=list)
    samples: List[Samples] = field(default_factory=list)
    histograms: List[Histogram] = field(default_factory=list)
    traces: List[Trace] = field(default_factory=list)
    #: Events of other kinds as they stand: ``outcome``, ``derived``, ``segment``, ``crosscheck`` …
    events: List[Json] = field(default_factory=list)
    footer: Optional[Json] = None
    #: Places of lines that do not match their checksums, are there twice or of another record, of which
    #: nothing is used, and of lines before which others are missing.
    damaged: List[int] = field(default_factory=list)
    #: The file ends within a line: plumb was killed while it wrote it. Nothing else is lost.
    torn: bool = False

    @property
    def name(self) -> str:
        """The run's name: time and host."""
        return str(self.header["run"])

    @property
    def complete(self) -> bool:
        """Whether the run reached its end."""
        return self.footer is not None and self.footer.get("end") == "complete"

    def unit(self, experiment: str, metric: str) -> Optional[str]:
        """The unit of a metric, as the plan has it."""
        for planned in (self.plan or {}).get("experiments", []):
            if planned["id"] == experiment:
                for of in planned["metrics"]:
                    if of["name"] == metric:
                        return str(of["unit"])
        return None

    def samples_of(self, experiment: str, case: Case, metric: str) -> List[Samples]:
        """A figure's samples, in the order of the rounds."""
        wanted = key(experiment, case, metric)
        return [of for of in self.samples if key(of.experiment, of.case, of.metric) == wanted]

    def keys(self) -> List[Key]:
        """The keys of all figures that have samples, each once."""
        found = {key(of.experiment, of.case, of.metric): None for of in self.samples}
        return list(found)


def read_record(path: Union[str, "os.PathLike[str]"]) -> Record:
    """Reads a record, packed by gzip or not.

    A line that was changed by accident is left out and named in ``damaged``, and so are the samples of a round whose
    last line it may have been; likewise lines that are missing, there twice or of another record. Raises NotPlumb for another file, NewerFormat for a record of a newer plumb, and
    Damaged with the line for one that cannot be read and has no checksum that would show it.
    """
    record: Optional[Record] = None
    open_round: List[Tuple[str, Union[Samples, Histogram, Trace]]] = []
    sequence = _Sequence()
    ended = False  # whether a line that does not count may have ended a round
    used = 0
    for number, event, line in _events(path):
        if line is None:
            if record is not None:
                record.torn = True
            break
        kind = event.get("event")
        missing = sequence.missing_before(line)
        if record is not None and missing is None:
            record.damaged.append(number)
            ended = ended or kind not in _MEASURED
            continue
        if record is not None:
            if missing and missing > sequence.unknown:
                record.damaged.append(number)
                ended = True
            if missing and ended:
                open_round.clear()
            ended = False
            sequence.unknown = 0
            used += 1
        if record is None:
            record = Record(header=_header(event))
            sequence.begin(line, int(event["format"]))
            if missing is None:
                record.damaged.append(number)
        elif kind in _MEASURED:
            into, read = _MEASURED[kind]
            open_round.append((into, read(event)))
        elif kind == "round":
            round = _round(event)
            record.rounds.append(round)
            if round.ok:
                for into, of in open_round:
                    getattr(record, into).append(of)
            open_round.clear()
        elif kind == "prediction":
            record.predictions.append(_prediction(event))
        elif kind in ("plan", "footer"):
            setattr(record, kind, event)
        elif kind == "calibration":
            record.header["calibration"] = event
        else:
            record.events.append(event)
        if kind == "segment":
            open_round.clear()
            record.header.setdefault("calibration", event.get("calibration"))
    if record is None:
        raise NotPlumb(f"{os.fspath(path)} is no record: it has no header")
    if number > 1 and used == 0:
        raise Damaged(2, "and so are all lines after it: a copy or an editor changed the file")
    return record


def _seal(line: bytes) -> Optional[Tuple[bytes, str]]:
    """What a line's checksum is of, and the checksum; nothing where it has none."""
    text, member, rest = line.rstrip(b"\r\n").rpartition(b',"crc":"')
    if not member or len(rest) != 10 or not rest.endswith(b'"}'):
        return None
    return text, rest[:8].decode("latin-1")


class _Sequence:
    """The place in a record that its reader has reached."""

    def __init__(self) -> None:
        self.numbered = False
        self.starts: Tuple[int, ...] = (0,)
        self.last = 0
        #: Lines behind the last one that match no checksum.
        self.unknown = 0

    def begin(self, header: bytes, format: int) -> None:
        """Behind the header: its checksum begins the others, as it should be or as it stands there."""
        self.last, self.unknown = 1, 0
        sealed = _seal(header)
        if format >= NUMBERED_FORMAT and sealed is not None:
            text, digits = sealed
            stated = [int(digits, 16)] if all(of in "0123456789abcdef" for of in digits) else []
            self.numbered, self.starts = True, (zlib.crc32(text), *stated)

    def missing_before(self, line: bytes) -> Optional[int]:
        """How many numbers are missing before a line; nothing where it does not count."""
        sealed = _seal(line)
        if sealed is None or all(sealed[1] != "%08x" % zlib.crc32(sealed[0], start) for start in self.starts):
            self.unknown += 1
            return None
        _, _, digits = sealed[0].rpartition(b',"line":')
        number = int(digits) if self.numbered and digits.isdigit() else self.last + self.unknown + 1
        if number <= self.last:
            return None
        missing, self.last = number - self.last - 1, number
        return missing


#: How files begin that hold a record in another form, and the way out.
_FOREIGN = (
    (b"\xfd7zXZ", "packed by xz: unpack it with `unxz`"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd: unpack it with `unzstd`"),
    (b"BZh", "packed by bzip2: unpack it with `bunzip2`"),
    (b"PK\x03\x04", "a ZIP archive: unpack it with `unzip`"),
    *((start, "text in UTF-16: convert it to UTF-8") for start in (b"\xff\xfe", b"\xfe\xff", b"{\0", b"\0{")),
)


def _lines(file: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file. Raises NotPlumb where its packed data is cut."""
    try:
        yield from file
    except (EOFError, zlib.error, gzip.BadGzipFile) as why:
        raise NotPlumb(f"its packed data is damaged, so a part is missing: {why}") from None


def _events(path: Union[str, "os.PathLike[str]"]) -> Iterator[Tuple[int, Json, Optional[bytes]]]:
    """Events with the places of their lines and these; no line where it is torn."""
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if packed else open(path, "rb") as file:
        for number, line in enumerate(_lines(file), 1):
            if number == 1:
                line = line[3:] if line.startswith(b"\xef\xbb\xbf") else line
                for start, what in _FOREIGN:
                    if line.startswith(start):
                        raise NotPlumb(f"{os.fspath(path)} is {what}")
            try:
                event = json.loads(line)
                if not isinstance(event, dict):
                    raise ValueError("not an object")
            except ValueError as why:
                if number == 1:
                    raise NotPlumb(f"{os.fspath(path)} is no record: {why}") from None
                if not line.endswith(b"\n"):
                    yield number, {}, None
                    return
                if _seal(line) is not None:
                    yield number, {}, line
                    continue
                raise Damaged(number, str(why)) from None
            try:
                yield number, event, line
            except (KeyError, TypeError) as why:
                raise Damaged(number, f"{type(why).__name__} {why}") from None


def _header(event: Json) -> Json:
    if event.get("event") != "header" or not isinstance(event.get("format"), int):
        raise NotPlumb("the first line is no header of plumb")
    if event["format"] > FORMAT:
        raise NewerFormat(
            f"a newer plumb ({event.get('plumb')}) wrote this record in format {event['format']}; "
            f"this package reads up to {FORMAT}: pip install --upgrade plumb-record"
        )
    if event["format"] < FIRST_FORMAT:
        raise NotPlumb(
            f"a development version of plumb wrote this record in format {event['format']}; "
            f"this package reads format {FIRST_FORMAT} and later ones"
        )
    return event


def _place(event: Json) -> Json:
    series = event["series"]
    place = {"experiment": series.split("/")[0], "series": series}
    if "case" in event:
        place.update(round=event["round"], case=event["case"])
    return place


def _values(event: Json) -> List[float]:
    if event["of"] == "quartets":
        operations = 2 * event["k"]
        return [(two - one) / operations for one, two in zip(event["n"], event["two_n"])]
    if "ascending" in event:
        return [steps * event["step"] for steps in accumulate(event["ascending"])]
    if "steps" in event:
        return [steps * event["step"] for steps in event["steps"]]
    return list(event["values"])


def _samples(event: Json) -> Samples:
    return Samples(
        **_place(event),
        metric=event["metric"],
        values=_values(event),
        of=event["of"],
        visit=event.get("visit", 0),
        width=event.get("width", []),
        core_mhz=event.get("core_mhz", []),
        core_hz=event.get("core_hz"),
        quantities=event.get("quantities", {}),
    )


def _histogram(event: Json) -> Histogram:
    buckets = [(at * event["scale"], count) for at, count in event["buckets"]]
    return Histogram(**_place(event), metric=event["metric"], buckets=buckets, above=event["above"])


def _trace(event: Json) -> Trace:
    fields = {name: event[name] for name in ("kind", "columns", "rows", "dropped")}
    return Trace(**_place(event), **fields)


def _prediction(event: Json) -> Prediction:
    range = event["range"] and (event["range"]["low"], event["range"]["likely"], event["range"]["high"])
    names = ("experiment", "case", "metric", "of", "because")
    return Prediction(**{name: event[name] for name in names}, range=range)


def _round(event: Json) -> Round:
    names = ("n", "segment", "at_s", "window_ns", "cpus", "disturbed", "environment")
    return Round(**_place(event), **{name: event[name] for name in names}, ok=event["status"] == "ok")


#: Events that count once their round has ended well, each with the list of the record that holds it.
_MEASURED: Dict[str, Tuple[str, Callable[[Json], Union[Samples, Histogram, Trace]]]] = {
    "samples": ("samples", _samples),
    "histogram": ("histograms", _histogram),
    "trace": ("traces", _trace),
}
