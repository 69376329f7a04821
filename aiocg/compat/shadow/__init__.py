"""A folder for `sys.path` and `PYTHONPATH` of processes that are to import ours: see `aiocg.compat.finder`."""
