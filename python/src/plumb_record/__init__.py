"""Reads what plumb writes: records (JSON Lines) and flat results (JSON).

A record holds every sample of a run; :func:`read_record` reads it. A flat result holds the figures that
plumb computed from a record (``plumb report RUN --format json``); :func:`read_result` reads it. The formats
are described in plumb's docs/FORMAT.md. All values are in base units: ns, B, B/s, op/s, ratio.
"""

from .errors import Damaged, NewerFormat, NotPlumb
from .record import Histogram, Prediction, Record, Round, Samples, Trace, read_record
from .result import Figure, Finding, Predicted, Result, read_result

__all__ = [
    "Damaged",
    "Figure",
    "Finding",
    "Histogram",
    "NewerFormat",
    "NotPlumb",
    "Predicted",
    "Prediction",
    "Record",
    "Result",
    "Round",
    "Samples",
    "Trace",
    "read_record",
    "read_result",
]
__version__ = "0.1.0"
