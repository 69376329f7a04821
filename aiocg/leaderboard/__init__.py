"""A leaderboard of searches: tracks, submissions, their checks, and the pages that show them.

A *track* says what is compared: a compiler, programs with the hashes of their content, a cost, and a budget. A
*submission* is a folder with one row for each program and seed. `check` believes nothing in it: it applies the actions
again, compares the costs exactly, and runs the programs. What it has passed is an *entry* of the board.
"""

from aiocg.leaderboard._board import Entry, Standing, add_entry, read_entries, standings
from aiocg.leaderboard._checks import Report, check
from aiocg.leaderboard._running import find_search, run_search, training_of
from aiocg.leaderboard.problems import Kind, Problem, Refused
from aiocg.leaderboard.submission import Submission
from aiocg.leaderboard.track import Track, read_track

__all__ = [
    "Entry",
    "Kind",
    "Problem",
    "Refused",
    "Report",
    "Standing",
    "Submission",
    "Track",
    "add_entry",
    "check",
    "find_search",
    "read_entries",
    "read_track",
    "run_search",
    "standings",
    "training_of",
]
