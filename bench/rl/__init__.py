"""What agents learn, by the protocol of CompilerGym's paper, and without each of our levers: `python -m bench.rl`."""
