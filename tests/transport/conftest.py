"""Event loops, addresses and workers for the tests of the sockets."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from aiocg.transport.messages import Done, Shutdown, Told
from aiocg.transport.sockets import WorkerChannel


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine to its end on each kind of loop."""

    def runner(coroutine: Coroutine[Any, Any, Any]) -> Any:
        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as owner:
            return owner.run(asyncio.wait_for(coroutine, 30))

    return runner


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/w"


class Worker(threading.Thread):
    """A real worker channel in a thread of its own: it answers requests with `Done`, the last with `Told`.

    `batches` has one entry for each batch received. Set `answer` to reply differently.
    """

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.channel = WorkerChannel(address)
        self.batches: list[Any] = []
        self.answer: Callable[[Any], Any] = lambda request: Done(request.request)

    @property
    def requests(self) -> list[Any]:
        return [request for batch in self.batches for request in batch]

    def run(self) -> None:
        while True:
            for client, requests in self.channel.receive(30.0):
                self.batches.append(requests)
                self.channel.send(client, [self.answer(r) for r in requests if not isinstance(r, Shutdown)])
                if isinstance(requests[-1], Shutdown):
                    self.channel.send(client, [Told(0, "goodbye")])
                    self.channel.close()
                    return


@pytest.fixture
def worker(address: str) -> Iterator[Worker]:
    """A worker that is bound but not started."""
    thread = Worker(address)
    yield thread
    if thread.ident is None:
        thread.channel.close()
