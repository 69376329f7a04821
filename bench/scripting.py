"""Runs a script of `bench/scripts` in a process of its own."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).with_name("scripts")


async def run_script(name: str, *arguments: str, given: bytes = b"") -> Any:
    """Run a script with this standard input and return the JSON that it prints.

    Raises:
        RuntimeError: when it fails; what it had to say is on standard error.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(SCRIPTS / name), *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate(given)
    if process.returncode:
        raise RuntimeError(f"{name} ended with status {process.returncode}")
    return json.loads(output)
