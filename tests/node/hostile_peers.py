"""What may come over a network to a node beside its clients. A script.

    hostile_peers.py flood HOST PORT SECONDS          connections, garbage and half handshakes, as fast as it can
    hostile_peers.py record LISTEN HOST PORT FILE     a proxy that writes down what its first client sends
    hostile_peers.py replay HOST PORT FILE            sends that again

It ends with an object in JSON on a line that says what came of it.
"""

import asyncio
import contextlib
import json
import random
import sys
from pathlib import Path

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)  # of ZMTP 3.1, a client's
HUGE_FRAME = b"\x02" + (1 << 62).to_bytes(8)  # announces one, and never comes to its end
SIDE_BY_SIDE = 200  # connections


async def flood(host: str, port: int, seconds: float) -> dict[str, int]:
    """Open connections until the time is up, and send what is no handshake, or half of one, or no end."""
    until = asyncio.get_running_loop().time() + seconds
    counts = {"connections": 0, "bytes": 0, "failures": 0}

    async def pester(dice: random.Random) -> None:
        while (left := until - asyncio.get_running_loop().time()) > 0:
            try:
                async with asyncio.timeout(min(left, 2.0)):
                    reader, writer = await asyncio.open_connection(host, port)
                    counts["connections"] += 1
                    start = dice.choice([b"", GREETING, GREETING + HUGE_FRAME, b"GET / HTTP/1.1\r\n\r\n"])
                    for chunk in (start, *(dice.randbytes(8192) for _ in range(dice.randrange(8)))):
                        writer.write(chunk)
                        await writer.drain()
                        counts["bytes"] += len(chunk)
                    await reader.read()
            except (OSError, TimeoutError):
                counts["failures"] += 1
            finally:
                with contextlib.suppress(OSError, UnboundLocalError):
                    writer.transport.abort()

    await asyncio.gather(*(pester(random.Random(index)) for index in range(SIDE_BY_SIDE)))
    return counts


async def record(listen: int, host: str, port: int, file: Path) -> None:
    """Pass on what clients send and get; write down what the first one sends."""
    first = True

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, copy: Path | None) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if copy is not None:
                    with copy.open("ab") as out:
                        out.write(data)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal first
        copy, first = (file if first else None), False
        there, back = await asyncio.open_connection(host, port)
        await asyncio.gather(pump(reader, back, copy), pump(there, writer, None))

    async with await asyncio.start_server(serve, "127.0.0.1", listen) as server:
        print(json.dumps({"listening": listen}), flush=True)
        await server.serve_forever()


async def replay(host: str, port: int, file: Path) -> dict[str, object]:
    """Send what was written down, and see what comes back before the connection is closed."""
    data = file.read_bytes()
    reader, writer = await asyncio.open_connection(host, port)
    received, closed = b"", True
    writer.write(data)
    try:
        async with asyncio.timeout(15):
            while chunk := await reader.read(65536):
                received += chunk
    except TimeoutError:
        closed = False
    except OSError:
        pass
    writer.transport.abort()
    return {"sent": len(data), "received": len(received), "closed": closed}


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "flood":
        print(json.dumps(asyncio.run(flood(rest[0], int(rest[1]), float(rest[2])))), flush=True)
    elif what == "record":
        asyncio.run(record(int(rest[0]), rest[1], int(rest[2]), Path(rest[3])))
    else:
        print(json.dumps(asyncio.run(replay(rest[0], int(rest[1]), Path(rest[2])))), flush=True)
