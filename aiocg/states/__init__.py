"""Results as values: the state of an environment, and files of many."""
