"""Figures of the original from another machine, to stand beside ours where the original itself cannot run.

They were measured for CompilerGym 0.2.5 on programs of less than 7,000 instructions. A ratio to them would compare
machines as well, so none is given.
"""

LABEL = "published, another machine"

FIGURES: dict[str, str] = {
    "make": "116 ms",
    "reset, cold": "400 ms",
    "reset, warm": "3 ms",
    "step, Autophase": "0.35 to 0.7 ms, floor 0.13",
    "batched, per action": "0.2 to 0.5 ms",
    "fork, until it answers": "8 to 13 ms; 70 to 80 for 60,000 instructions",
    "greedy step": "1.4 to 2.0 s; 16 for 60,000 instructions",
}
