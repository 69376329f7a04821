"""Pictures as SVG: graphs, curves and nested boxes. Pure; it imports nothing else of ours."""
