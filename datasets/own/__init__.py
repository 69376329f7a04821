"""Datasets of users' own programs: their format, installation and packing.

A dataset is a self-contained folder::

    aiocg-dataset.jsonl   the manifest: one JSON object a line, see `aiocg.datasets.own.dataset`
    content/<SHA-256>     bitcode, sources, inputs and expected outputs: each once, by hash

`aiocg.programs.project` makes them; `pack` writes one to a file, and `add` installs it from there.
"""
