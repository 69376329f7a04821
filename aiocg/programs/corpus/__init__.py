"""Measuring whole datasets in parallel, into the index of the dataset.

summary = await aiocg.programs.corpus.measure(datasets["sdist-v0"], limit=500)
dataset.select(instructions=(500, 5000), unique=True)
"""

from aiocg.programs.corpus.measure import NOT_RUNNABLE, Summary, measure

__all__ = ["NOT_RUNNABLE", "Summary", "measure"]
