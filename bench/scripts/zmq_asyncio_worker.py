"""The baseline's worker: one ROUTER, one message in, one message out, nothing else.

Run as `python zmq_asyncio_worker.py ADDRESS`.
"""

import sys

import msgspec
import zmq


class Step(msgspec.Struct, array_like=True):
    """What the client asks: the same fields as a step of aiocg."""

    request: int
    session: int
    actions: tuple[int, ...]
    timeout: float


class Done(msgspec.Struct, array_like=True):
    """The answer."""

    request: int


def main() -> None:
    """Answer until killed."""
    decode = msgspec.msgpack.Decoder(Step).decode
    encode = msgspec.msgpack.Encoder().encode
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.bind(sys.argv[1])
    while True:
        client, frame = socket.recv_multipart()
        socket.send_multipart((client, encode(Done(decode(frame).request))))


if __name__ == "__main__":
    main()
