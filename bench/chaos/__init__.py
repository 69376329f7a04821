"""Faults at random among walking environments: `python -m bench.chaos` from the root of the checkout."""
