"""The runtime in a simulated world: virtual time, and workers and a wire that are objects.

Everything that decides is what users run: `Runtime`, `Env`, the supervisor, its slots, blame and suspicion, and the
workers' table of sessions. What acts is simulated: the event loop's clock, processes, and what carries requests. A
schedule of moves and faults is a function of its seed, so a failure can be repeated and shrunk.
"""
