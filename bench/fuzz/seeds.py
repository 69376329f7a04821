"""Valid inputs for fuzzing to begin with: small, and one for each form that there is."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from aiocg.states.state import CompilerEnvState, LegacyState
from aiocg.transport import control as control_messages
from aiocg.transport.arrays import Array
from aiocg.transport.codec import Codec, reply_codec, request_codec
from aiocg.transport.link import INSTANCE_BYTES, ClientLink, ServerLink
from aiocg.transport.messages import (
    Candidate,
    Close,
    Done,
    Expand,
    Expanded,
    Failure,
    Fork,
    Hello,
    Load,
    ObservationSpec,
    Observed,
    Open,
    Parameter,
    Reply,
    Request,
    Statistics,
    Step,
    TextReply,
    Welcome,
)

KINDS = tuple(kind.__name__.encode() for kind in get_args(Request | Reply))
LARGE = bytes(20_000)


def packed(frames: Sequence[Any]) -> bytes:
    """Write frames one after the other, each behind its length; what is longer is cut off."""
    cut = [bytes(frame)[:65_535] for frame in frames]
    return b"".join(len(frame).to_bytes(2, "big") + frame for frame in cut)


def _batches(codec: Codec[Any], messages: Sequence[Any]) -> tuple[bytes, ...]:
    return (*(packed(codec.encode([message])) for message in messages), packed(codec.encode(messages)))


def requests() -> tuple[bytes, ...]:
    """Return batches of requests."""
    messages = (
        Hello(2, "aiocg"),
        Load(1, "b", b"BC\xc0\xde", 1.0, b"recipe"),
        Load(1, "b", LARGE, 1.0),
        Open(2, 1, "b", 1.0, ("Ir",), (("key", "value"),)),
        Step(3, 1, (1, "mem2reg", None, [1, {"a": b"x"}]), 1.0, ("Ir", "Autophase")),
        Fork(4, 1, 2),
        Expand(5, 1, ((1, 2), ("gvn",)), 1.0, ("Ir",), (1,)),
        Parameter(6, 1, "llvm.set_measured_run", "x", 1.0),
        Close(7, (1, 2)),
        Statistics(8),
    )
    return _batches(request_codec(), messages)


def replies() -> tuple[bytes, ...]:
    """Return batches of replies."""
    small, large = Array("int64", (2, 3), bytes(48)), Array("float32", (5_000,), LARGE)
    messages = (
        Welcome(2, "llvm", "LLVM 22", 1, (), (ObservationSpec("Ir", "text", default=""),)),
        Done(1),
        TextReply(2, "text"),
        Observed(3, (1, 1.5, "text", b"bytes", small, large, [None, {"a": True}]), 2**64 - 1, (True, False), 0.5),
        Expanded(4, (None, Candidate((small,), 1, (True,)), Candidate(code="action", message="no")), 0.1),
        Failure(5, "action", "why", {"applied": 1}),
    )
    return _batches(reply_codec(), messages)


def control() -> tuple[bytes, ...]:
    """Return what clients and nodes say to each other."""
    to_node = (
        control_messages.Attach(1, "aiocg", "instance"),
        control_messages.Spawn(1, "llvm", {"transition_cache_bytes": 1}, 1 << 30),
        control_messages.Beat(3, (1, 2)),
        control_messages.Kill(1),
        control_messages.Detach(),
        control_messages.Fetch(b"d" * 32, 5, "tcp://other:5757", "k" * 40, "k" * 40),
        control_messages.Read(b"d" * 32, 5),
    )
    from_node = (
        control_messages.Refused("protocol", "another version"),
        control_messages.Spawned(1, 1234, "k" * 40, 1),
        control_messages.Died(1, -9, 2, None, "last words"),
        control_messages.Fetched(b"d" * 32, True),
        control_messages.Piece(b"d" * 32, 5, b"piece"),
    )
    return (
        *_batches(control_messages.from_peer_codec(), to_node),
        *_batches(control_messages.from_node_codec(), from_node),
    )


def heads() -> tuple[bytes, ...]:
    """Return what the ends of a link say first, and with a batch."""
    client, server = ClientLink(b"1" * INSTANCE_BYTES), ServerLink(b"1" * INSTANCE_BYTES, b"2" * INSTANCE_BYTES)
    client.ask()
    server.push([b"batch", b"more"])
    return tuple(packed(frames) for link in (client, server) if (frames := link.outgoing()) is not None)


def recipes() -> tuple[bytes, ...]:
    """Return a recipe."""
    run = {
        "name": "it",
        "arguments": ["1"],
        "stdin": b"",
        "files": {"in/put": b"x"},
        "environment": {"A": "1"},
        "exit_status": 0,
        "stdout": None,
        "outputs": {"out": None},
        "timeout": 1.0,
    }
    recipe = {
        "version": 1,
        "command": ["{lld}", "-o", "program", "program.o", "runtime.a"],
        "files": {"runtime.a": b"!<arch>\n"},
        "environment": {},
        "runs": [run],
        "measured": "it",
    }
    return (msgspec.msgpack.encode(recipe),)


def machine_code() -> tuple[bytes, ...]:
    """Return an archive, and the head of an object file."""
    elf = b"\x7fELF\x02\x01\x01" + bytes(33) + (64).to_bytes(8, "little") + bytes(10) + b"\x40\0\x01\0\0\0" + bytes(64)
    head = b"%-16s%-12d%-6d%-6d%-8d%-10d`\n" % (b"a.o/", 0, 0, 0, 644, len(elf))
    return elf, b"!<arch>\n" + head + elf


ASSEMBLY = (
    b'define void @f() {\n  call void asm sideeffect "nop; 1: jmp 1b\\0A\\09movl $$1, $0", "r"(i32 1)\n  ret void\n}\n',
    b'  %"asm " = call i8 asm ".incbin \\22/x\\22", "=r"()\n',
    b'module asm ".byte 1"\n!llvm.dependent-libraries = !{!0}\n',
)
ASSEMBLY_WORDS = (b' asm "', b"asm sideeffect ", b"module asm ", b"$0", b"$$", b"\\0A", b"\\22", b".incbin", b";", b":")

URIS = (
    b"programs-v0/qsort",
    b"benchmark://cbench-v1/qsort?a=1&b=%20#small",
    b"generator://aiocg-v0/7?size=500",
    b"file:///home/me/a%20b.c",
)
ACTIONS = (
    b"mem2reg,gvn",
    b"{inliner-threshold=50;loop-unrolling=0}default<O2>",
    b"@main(function(loop-mssa(licm<allowspeculation>)))",
    b'@"odd \\22 name":12(unroll<full>)',
    b"repeat<3>(module(cgscc(inline)))",
)
COMMAND_LINES = (
    b"opt -mem2reg -barrier -simplifycfg input.bc -o output.bc",
    b"opt '-passes=function(sroa,loop-mssa(licm)),globaldce' input.bc -o - | opt -O2 -S",
    b"clang++ -c -O2 -I include -D'A=\"b c\"' -x c -MMD -MF a.d a.c -o a.o -Wl,-z,now",
)
MANIFESTS = (
    b'{"format":"aiocg-dataset","version":1,"name":"mine-v0","programs":1}\n'
    b'{"path":"a","module":"' + b"0" * 64 + b'","language":"c","flags":["-O1"],"sources":{"a.c":"' + b"1" * 64 + b'"},'
    b'"link":{"words":["-lm"],"files":{}},"runs":[{"name":"it","arguments":["1"],"files":{"in":"' + b"2" * 64 + b'"},'
    b'"output_files":{"out":null}}],"measured":"it"}\n',
)


def states() -> tuple[bytes, ...]:
    """Return files of states in all forms."""
    rows = (
        b"environment,benchmark,reward_space,reward,walltime,actions\n"
        b"llvm-v0,benchmark://programs-v0/gcd,IrInstructionCountOz,1.5,0.1,mem2reg 'function(sroa,gvn)'\n"
    )
    legacy = b"benchmark,reward,walltime,commandline\r\ncbench-v1/qsort,,1e3,opt -mem2reg input.bc -o output.bc\r\n"
    state = CompilerEnvState(environment="llvm-v0", benchmark="programs-v0/gcd", actions=("gvn",), reward=1.0)
    objects = f"{state.to_json()}\n{LegacyState(benchmark='a-v0/b', commandline='opt -gvn').to_json()}\n".encode()
    return rows, legacy, objects, b"\xef\xbb\xbf" + rows.partition(b"\n")[2]


def lists() -> tuple[bytes, ...]:
    """Return lists of names, plain and compressed."""
    names = b"first\nsecond/third\r\n\nfirst\n"
    return names, gzip.compress(names, mtime=0)


def archives() -> tuple[bytes, ...]:
    """Return archives with all kinds of members, those included that must not come out."""
    kinds: tuple[tuple[str, bytes, str, bytes], ...] = (
        ("folder/file", tarfile.REGTYPE, "", b"content"),
        ("folder/link", tarfile.SYMTYPE, "file", b""),
        ("folder/hard", tarfile.LNKTYPE, "folder/file", b""),
        ("../outside", tarfile.REGTYPE, "", b"x"),
        ("/absolute", tarfile.REGTYPE, "", b"x"),
        ("folder/up", tarfile.SYMTYPE, "../../..", b""),
        ("folder/up/file", tarfile.REGTYPE, "", b"x"),
        ("device", tarfile.CHRTYPE, "", b""),
    )
    tars = []
    for chosen in (kinds[:3], *([kind] for kind in kinds[3:]), kinds[5:7]):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, kind, link, content in chosen:
                member = tarfile.TarInfo(name)
                member.type, member.linkname, member.size = kind, link, len(content)
                tar.addfile(member, io.BytesIO(content))
        tars.append(buffer.getvalue())
    zips = []
    for name in ("folder/file", "../outside"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, "content" * 100)
        zips.append(buffer.getvalue())
    return (*tars, gzip.compress(tars[0], mtime=0), *zips)
