"""Flags of a build that lower a cost: found by search, and written down as flags that work without aiocg."""

from aiocg.tune._job import Job, Settings, verdict
from aiocg.tune._result import Result, read_result, result_text
from aiocg.tune._tuning import Tuning
from aiocg.tune._workspace import TuneError, Workspace

__all__ = [
    "Job",
    "Result",
    "Settings",
    "TuneError",
    "Tuning",
    "Workspace",
    "read_result",
    "result_text",
    "verdict",
]
