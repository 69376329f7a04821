"""The GCC worker: command-line options are the actions, and an observation is what runs the compiler."""
