"""`python -m bench.fuzz TARGET`: coverage-guided fuzzing with atheris, for as long as one likes."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

HOW = "atheris is missing: `pip install atheris` (Linux, CPython 3.11 to 3.13), then run this again"


def main(
    target: Annotated[str, typer.Argument(help="What to fuzz; `list` says what there is.")],
    seconds: Annotated[int, typer.Option(min=1, help="How long.")] = 60,
    corpus: Annotated[Path | None, typer.Option(help="Folder for inputs that led to new code.")] = None,
    longest: Annotated[int, typer.Option(min=1, help="Bytes of an input.")] = 4096,
    memory: Annotated[int, typer.Option(min=64, help="MiB that this process may have.")] = 1024,
    slowest: Annotated[int, typer.Option(min=1, help="Seconds that one input may take.")] = 10,
    replay: Annotated[Path | None, typer.Option(help="Run one input, such as a finding, and nothing else.")] = None,
) -> None:
    """Feed one of aiocg's readers with inputs that lead to ever new places in its code.

    Ends with another status than 0 at the first input that raises what it should not, takes too long or too much
    memory; the input is kept beside the corpus, to be given to --replay.

    Example: python -m bench.fuzz states --seconds 600
    """
    folder = corpus or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "aiocg-fuzz" / target
    if target in ("list", "programs"):
        return _show_names() if target == "list" else _fuzz_programs(seconds, folder)
    with contextlib.ExitStack() as stack:
        if replay is None:
            try:
                import atheris
            except ImportError:
                raise SystemExit(HOW) from None
            stack.enter_context(atheris.instrument_imports(include=["aiocg"]))
        from bench.fuzz.targets import TARGETS
    if target not in TARGETS:
        raise typer.BadParameter(f"{target!r} is no target: there are {', '.join(TARGETS)} and programs")
    chosen = TARGETS[target]
    if replay is not None:
        return chosen.run(replay.read_bytes())
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(chosen.seeds):
        (folder / f"seed-{number}").write_bytes(seed)
    words = folder.with_name(f"{folder.name}.words")
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in chosen.words))
    options = [f"-max_total_time={seconds}", f"-max_len={longest}", f"-rss_limit_mb={memory}", f"-timeout={slowest}"]
    options += [f"-artifact_prefix={folder}.", "-print_final_stats=1"]
    options += [f"-dict={words}"] if chosen.words else []
    atheris.Setup([sys.argv[0], *options, str(folder)], chosen.run)
    atheris.Fuzz()
    return None


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _show_names() -> None:
    from bench.fuzz.targets import TARGETS

    for name, target in TARGETS.items():
        typer.echo(f"{name:15} {(target.run.__doc__ or '').strip().splitlines()[0]}")
    typer.echo(f"{'programs':15} Bitcode and textual IR, damaged at random, by a real worker; needs no atheris.")


def _fuzz_programs(seconds: float, folder: Path) -> None:
    from bench.fuzz.programs import fuzz

    typer.echo(fuzz(seconds, folder))


if __name__ == "__main__":
    typer.run(main)
