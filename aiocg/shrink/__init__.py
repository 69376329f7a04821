"""Smaller programs from a build: `aiocg shrink -- make`.

The build runs as always and is recorded (`record`). Its units are then compiled to bitcode (`_units`), the bitcode of
each image is joined to one module by the linker itself (`_linking`), a search makes that smaller, and the smallest of
several linked images takes the place of the build's own (`_candidate`). `aiocg.lock` remembers what was found (`lock`).
"""
