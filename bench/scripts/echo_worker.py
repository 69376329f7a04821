"""A worker that is all transport: it answers every step with `Done`. Run as `python echo_worker.py ADDRESS`."""

import sys

from aiocg.transport.messages import Done, Step
from aiocg.workers.__main__ import listen


def main() -> None:
    """Answer until killed."""
    channel, *_ = listen(sys.argv[1], None, None)
    while True:
        for client, requests in channel.receive(None):
            if isinstance(requests, list):
                channel.send(client, [Done(step.request) for step in requests if isinstance(step, Step)])


if __name__ == "__main__":
    main()
