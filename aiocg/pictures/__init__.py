"""Pictures as SVG: graphs, charts and nested boxes. Pure; it imports nothing else of ours."""

from aiocg.pictures._curves import bars, stairs
from aiocg.pictures._graph import Box, Edge, Graph, cfg, functions, nested

__all__ = ["Box", "Edge", "Graph", "bars", "cfg", "functions", "nested", "stairs"]
