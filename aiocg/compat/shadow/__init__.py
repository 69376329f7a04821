"""A folder for `sys.path`, from which a process imports aiocg's packages; see `aiocg.compat._finder`."""
