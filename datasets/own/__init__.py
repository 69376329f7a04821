"""Datasets that users make of their own programs: what they are made of, where they lie, and how they travel.

A dataset is a folder, and depends on nothing outside it::

    aiocg-dataset.jsonl   the manifest: one JSON object a line, see `aiocg.datasets.own.manifest`
    content/<SHA-256>     bitcode, sources, what programs read and must write: each once, under the hash of its bytes

`aiocg.project` makes them; `pack` puts one into a file, `add` takes it out again, on another machine maybe.
"""
