"""The GCC worker: command-line options are the actions, and only observations run the compiler."""
