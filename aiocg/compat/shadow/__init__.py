"""A folder for `sys.path` or `PYTHONPATH`, from which a process imports aiocg's packages; see `aiocg.compat.finder`."""
