"""The wire between client and workers: messages and codec (pure), and the sockets that carry them."""

if __name__ != "aiocg.transport":  # a second copy under another name would make every class exist twice
    raise ImportError("import aiocg.transport, not transport")
