"""CompilerGym's benchmarks and datasets, implemented with aiocg's."""
