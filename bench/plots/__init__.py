"""The plots and tables of docs/performance.md, made of stored measurements: `python -m bench.plots`."""
