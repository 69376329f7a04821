"""Writes docs/datasets.md: `python -m bench.datasets_page` from the root of the checkout."""
