"""All measurements, in the order they are run."""

from bench import (
    cluster,
    datasets,
    features,
    fork_memory,
    gcc,
    generators,
    greedy_step,
    limit,
    observations,
    program_size,
    recovery,
    scaling,
    shared_memory,
    shares,
    startup,
    step_latency,
    transitions,
    transport,
)
from bench.measure import Measurement

CATALOG = (
    Measurement("transport", "a request that does nothing, beside zmq.asyncio", transport.measure),
    Measurement("step", "what a step costs beyond the compiler's own time", step_latency.measure),
    Measurement("limit", "steps beside the same trajectories over LLVM alone", limit.measure),
    Measurement("size", "fork, snapshot and warm reset against the size of the program", program_size.measure),
    Measurement("greedy", "all actions from one state: expand beside fork, step and close", greedy_step.measure),
    Measurement("features", "walks over the program, per instruction", features.measure),
    Measurement("observations", "each observation, beside those published for CompilerGym", observations.measure),
    Measurement("scaling", "1 to 1,000 environments with random actions", scaling.measure),
    Measurement("memory", "idle forks", fork_memory.measure),
    Measurement("datasets", "a million names: in order, shuffled, split, mixed, in constant memory", datasets.measure),
    Measurement("generators", "programs made of seeds, written and compiled, beside Csmith's", generators.measure),
    Measurement("gcc", "GCC's environments beside the bare command; what is remembered; two workers", gcc.measure),
    Measurement("transitions", "what logging costs a step; files written and merged", transitions.measure),
    Measurement("recovery", "200 environments, when a worker dies", recovery.measure),
    Measurement("shares", "a client that steps on a node, beside one that expands", shares.measure),
    Measurement("cluster", "two nodes beside one runtime; a node joins", cluster.measure),
    Measurement("remembered", "a search that finds its transitions in a folder or on a server", shared_memory.measure),
    Measurement("startup", "from a fresh interpreter to the first environment", startup.measure),
)
