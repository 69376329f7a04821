"""A node: runs workers for clients on other machines. `aiocg serve` starts one."""

NODE_TIMEOUT = 60.0
"""Seconds of silence after which a client gives up a node."""
