"""The name by which verifiers finds the taskset of `aiocg.agents.verifiers`: `vf-eval aiocg-codesize`.

It is at the top, as verifiers looks for no other names. The harness lets a model call the tools, and nothing else.
"""

from verifiers.v1.harnesses.null import NullHarness

from aiocg.agents.verifiers import CodeSize

__all__ = ["CodeSize", "NullHarness"]
