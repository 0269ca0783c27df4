"""The flat result of a run: its figures, as plumb computed them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from .errors import NewerFormat, NotPlumb

if TYPE_CHECKING:
    import pandas

#: The newest format of flat results that this package reads.
FORMAT = 3

Json = Dict[str, Any]
Case = Mapping[str, Union[str, int]]


@dataclass(frozen=True)
class Predicted:
    """What plumb predicted, in the metric's unit. Ends are None without a prediction of a number."""

    low: Optional[float]
    likely: Optional[float]
    high: Optional[float]
    because: str


@dataclass(frozen=True)
class Figure:
    """One figure, or a case or experiment that is absent."""

    experiment: str
    case: Case
    #: None where the whole case or experiment is absent.
    metric: Optional[str]
    unit: Optional[str]
    #: ``measured``, ``skipped`` or ``failed``. A value beyond what is possible is ``failed`` and keeps its value.
    outcome: str
    reason: Optional[str]
    value: Optional[float]
    #: The ends of the value's interval.
    ci: Optional[Tuple[float, float]]
    confidence: Optional[float]
    #: ``alone``: from samples taken while no other program or guest used the core; ``as_found``: from all.
    condition: Optional[str]
    #: The value in cycles of the core's clock.
    cycles: Optional[float]
    prior: Optional[Predicted]
    derived: Optional[Predicted]
    verdict: Optional[str]
    derived_verdict: Optional[str]
    #: ``lower``, ``higher`` or ``none``.
    better: Optional[str]
    #: The object as it stands in the file.
    raw: Json

    @property
    def measured(self) -> bool:
        """Whether the value can be used."""
        return self.outcome == "measured" and self.value is not None

    def case_text(self) -> str:
        """The case as plumb writes it: ``name=value,name=value``."""
        return ",".join(f"{name}={value}" for name, value in self.case.items())


@dataclass(frozen=True)
class Finding:
    """A finding about the run."""

    severity: str
    #: A word for the cause; empty in results from before findings had one.
    cause: str
    about: str
    text: str
    advice: Optional[str]


@dataclass(frozen=True)
class Result:
    """A run's flat result."""

    plumb: str
    #: The run's name, start, preset and more.
    run: Json
    host: Json
    environment: Mapping[str, str]
    figures: List[Figure]
    findings: List[Finding]
    raw: Json

    def measured(self, experiment: Optional[str] = None, metric: Optional[str] = None) -> Iterator[Figure]:
        """The measured figures, of one experiment and metric if they are given."""
        for figure in self.figures:
            if figure.measured and experiment in (None, figure.experiment) and metric in (None, figure.metric):
                yield figure

    def figure(self, experiment: str, metric: str, **case: Union[str, int]) -> Figure:
        """The figure whose case is exactly this one. Raises KeyError without one."""
        for figure in self.figures:
            if (figure.experiment, figure.metric, dict(figure.case)) == (experiment, metric, case):
                return figure
        raise KeyError(f"no figure {experiment} {metric} with the case {case}")

    def to_frame(self) -> "pandas.DataFrame":
        """All figures as a table, a row each, with one column per parameter (needs pandas).

        A parameter with the name of another column gets the prefix ``case_``, as in plumb's CSV.
        """
        import pandas

        names = ("experiment", "metric", "unit", "outcome", "value", "confidence", "condition", "cycles", "verdict")
        rows = []
        for figure in self.figures:
            row: Json = {name: getattr(figure, name) for name in names}
            row["ci_low"], row["ci_high"] = figure.ci or (None, None)
            for name, value in figure.case.items():
                row[f"case_{name}" if name in row else name] = value
            rows.append(row)
        return pandas.DataFrame(rows)


def read_result(source: Union[str, "os.PathLike[str]", Json]) -> Result:
    """Reads a flat result from a file, or from the object that ``json.load`` made of one.

    Raises NotPlumb for another file, and NewerFormat for the result of a newer plumb.
    """
    raw = source if isinstance(source, dict) else _load(source)
    version = raw.get("format") if isinstance(raw, dict) else None
    if not isinstance(version, int) or "figures" not in raw or "run" not in raw:
        raise NotPlumb("this is no flat result of plumb (plumb report RUN --format json writes one)")
    if version > FORMAT:
        raise NewerFormat(
            f"a newer plumb ({raw.get('plumb')}) wrote this result in format {version}; "
            f"this package reads up to {FORMAT}: pip install --upgrade plumb-record"
        )
    return Result(
        plumb=raw["plumb"],
        run=raw["run"] if isinstance(raw["run"], dict) else {"name": raw["run"]},
        host=raw["host"],
        environment=raw["environment"],
        figures=[_figure(figure) for figure in raw["figures"]],
        findings=[_finding(finding) for finding in raw.get("findings", [])],
        raw=raw,
    )


def _load(path: Union[str, "os.PathLike[str]"]) -> Json:
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)  # type: ignore[no-any-return]
        except ValueError as why:
            raise NotPlumb(f"{os.fspath(path)} is no flat result: {why}") from None


def _predicted(raw: Optional[Json]) -> Optional[Predicted]:
    if raw is None:
        return None
    return Predicted(raw.get("low"), raw.get("likely"), raw.get("high"), raw.get("because", ""))


def _figure(raw: Json) -> Figure:
    names = ("metric", "unit", "reason", "value", "confidence", "condition", "cycles", "verdict", "derived_verdict")
    ci = raw.get("ci")
    return Figure(
        experiment=raw["experiment"],
        case=raw.get("case") or {},
        outcome=raw["outcome"],
        ci=None if ci is None else (ci[0], ci[1]),
        prior=_predicted(raw.get("prediction")),
        derived=_predicted(raw.get("derived_prediction")),
        better=raw.get("better"),
        raw=raw,
        **{name: raw.get(name) for name in names},
    )


def _finding(raw: Json) -> Finding:
    names = ("severity", "about", "text")
    return Finding(**{name: raw[name] for name in names}, cause=raw.get("cause", ""), advice=raw.get("advice"))
