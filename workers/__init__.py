"""Workers: one process per compiler, a host loop that every compiler shares, one folder each."""

if __name__ != "aiocg.workers":  # a second copy under another name would make every class exist twice
    raise ImportError("import aiocg.workers, not workers")
