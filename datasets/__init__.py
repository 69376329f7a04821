"""Where programs come from: benchmark URIs, benchmarks, datasets, and the front end that compiles them."""

if __name__ != "aiocg.datasets":  # a second copy under another name would make every class exist twice
    raise ImportError("import aiocg.datasets, not datasets")
