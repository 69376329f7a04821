"""Worker slots: their processes, the sessions and requests on them, and what happens when workers die."""
