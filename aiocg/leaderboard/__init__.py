"""A leaderboard of searches: tracks, submissions, their checks, and the pages that show them.

A *track* says what is compared: a compiler, programs with the hashes of their content, a cost, and a budget. A
*submission* is a folder with one row for each program and seed. `check` believes nothing in it: it applies the actions
again, compares the costs exactly, and runs the programs. What it has passed is an *entry* of the board.
"""

from aiocg.leaderboard._board import Entry, Standing, add_entry, read_entries, standings
from aiocg.leaderboard._checks import Report, check
from aiocg.leaderboard._problems import Kind, Problem, Refused
from aiocg.leaderboard._running import find_search, run_search, training_of
from aiocg.leaderboard._submission import About, Row, Submission
from aiocg.leaderboard._track import Track, calibration, read_track

__all__ = [
    "About",
    "Entry",
    "Kind",
    "Problem",
    "Refused",
    "Report",
    "Row",
    "Standing",
    "Submission",
    "Track",
    "add_entry",
    "calibration",
    "check",
    "find_search",
    "read_entries",
    "read_track",
    "run_search",
    "standings",
    "training_of",
]
