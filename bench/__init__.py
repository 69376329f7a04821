"""Measurements of aiocg: `python -m bench` from the root of the checkout."""

import os
import sys
from pathlib import Path

# `python -m` puts the checkout itself on the path, whose folders would stand before installed packages of the same
# name. What is measured is the aiocg that is installed.
_CHECKOUT = Path(__file__).resolve().parent.parent
sys.path[:] = [entry for entry in sys.path if Path(entry or os.curdir).resolve() != _CHECKOUT]
