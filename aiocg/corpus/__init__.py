"""Whole datasets at once: compiling and measuring all programs, on all cores, into the index of the dataset.

    summary = await aiocg.corpus.measure(datasets["sdist-v0"], limit=500)
    dataset.select(instructions=(500, 5000), unique=True)
"""

from aiocg.corpus.measure import NOT_RUNNABLE, Summary, measure
from aiocg.corpus.statistics import Statistics, statistics_of
from aiocg.corpus.verification import Verification, verify

__all__ = ["NOT_RUNNABLE", "Statistics", "Summary", "Verification", "measure", "statistics_of", "verify"]
