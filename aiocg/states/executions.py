"""Parsing workers' reports of a program's runs, and comparing two executions. Pure.

An execution is the observation `Execution`: a list with a map for each run, see `aiocg.workers.programs.execution`. The
observations of sanitizers have such a list under `runs`, with what the sanitizer found.
"""

import hashlib
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from aiocg.datasets.recipe import ProgramRun
from aiocg.states.result import ErrorKind, ValidationError

Run = Mapping[str, Any]

PLAIN = ("Execution", "execution")  # how the environments call that observation
HEAD = 4096  # bytes of an output that are shown

_DELIBERATE = ("SIGABRT", "SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM")  # no sign of a defect
_SIGNALS = {"SIGSEGV": ErrorKind.SEGMENTATION_FAULT, "SIGBUS": ErrorKind.SEGMENTATION_FAULT}
_SIGNALS["SIGILL"] = ErrorKind.ILLEGAL_INSTRUCTION

# What sanitizers call it, as far as it is not a memory error.
_FINDINGS = (
    ("leaked in", ErrorKind.MEMORY_LEAK),
    ("AddressSanitizer: SEGV", ErrorKind.SEGMENTATION_FAULT),
    ("AddressSanitizer: BUS", ErrorKind.SEGMENTATION_FAULT),
    ("AddressSanitizer: ILL", ErrorKind.ILLEGAL_INSTRUCTION),
    ("ThreadSanitizer: data race", ErrorKind.DATA_RACE),
    ("UndefinedBehaviorSanitizer", ErrorKind.UNDEFINED_BEHAVIOUR),
)


def faults(promised: Mapping[str, ProgramRun], runs: Sequence[Run]) -> list[ValidationError]:
    """Return the differences of an execution from the benchmark's expectations.

    Args:
        promised: the runs of the benchmark's program, by name.
        runs: the execution.
    """
    return differences([_promise(promised[run["name"]], run) for run in runs], runs, promised)


def _promise(run: ProgramRun, actual: Run) -> Run:
    """Describe the expected run, filling in from an actual run what the benchmark does not know."""
    output, code, signalled = run.expected_output(), run.exit_status, None
    if code is None:  # any ending that the program may have chosen
        signalled = actual["signal"] if actual["signal"] in _DELIBERATE else None
        code = None if signalled else actual["exit_code"] or 0
    return {
        "name": actual["name"],
        "exit_code": code,
        "signal": signalled,
        "timed_out": False,
        "stdout": actual["stdout"] if output is None else _describe(output),
        "files": {
            name: _describe(content) if content is not None else actual["files"].get(name) or _describe(b"")
            for name, content in run.output_files.items()
        },
    }


def _describe(content: bytes) -> dict[str, str]:
    """Describe the content of a file as workers do."""
    return {"sha256": hashlib.sha256(content).hexdigest(), "head": content[:HEAD].decode(errors="backslashreplace")}


def differences(
    expected: Sequence[Run], actual: Sequence[Run], promised: Mapping[str, ProgramRun]
) -> list[ValidationError]:
    """Return the differences of two executions of the same runs: exit status, files, and output unless it varies.

    Args:
        expected, actual: the executions.
        promised: the runs of the benchmark's program, by name.
    """
    return [
        error
        for before, after in zip(expected, actual, strict=True)
        for error in _differences_of_run(before, after, output_varies=promised[after["name"]].output_varies)
    ]


def _differences_of_run(expected: Run, actual: Run, *, output_varies: bool) -> list[ValidationError]:
    ending = ("exit_code", "signal", "timed_out")
    if any(expected[key] != actual[key] for key in ending):
        broken = _broken_off(actual)
        if broken is not None:
            return [broken]
        data = {"run": actual["name"], "expected": _ending(expected), "output": _head(actual["stdout"])}
        error = {**data, "stderr": actual["stderr"]}
        return [ValidationError(kind=ErrorKind.RUNTIME_ERROR, exit_code=actual["exit_code"], data=error)]
    errors = []
    if not output_varies and _digest(expected["stdout"]) != _digest(actual["stdout"]):
        errors.append(ValidationError(kind=ErrorKind.WRONG_OUTPUT, data=_evidence(actual, expected, "stdout")))
    for name, content in expected["files"].items():
        found = actual["files"].get(name)
        if content is not None and found is None:
            errors.append(
                ValidationError(kind=ErrorKind.OUTPUT_NOT_GENERATED, data={"run": actual["name"], "path": name})
            )
        elif _digest(content) != _digest(found):
            data = {"path": name, "expected": _head(content), "actual": _head(found)}
            errors.append(ValidationError(kind=ErrorKind.WRONG_FILE, data={"run": actual["name"], **data}))
    return errors


def findings(runs: Sequence[Run], sanitizer: str) -> list[ValidationError]:
    """Return a sanitizer's findings in the runs of an execution."""
    return [
        ValidationError(
            kind=_kind(run["finding"]),
            data={"run": run["name"], "sanitizer": sanitizer, "finding": run["finding"], "report": run["report"]},
        )
        for run in runs
        if run["finding"]
    ]


def in_words(errors: Sequence[ValidationError]) -> str:
    """Say how runs went wrong, such as "exit status 3" or "wrong output"."""
    return ", ".join(dict.fromkeys(map(_in_words, errors)))


def _in_words(error: ValidationError) -> str:
    if error.kind == ErrorKind.EXECUTION_TIMEOUT:
        return "no end in time"
    if error.kind == ErrorKind.RUNTIME_ERROR and error.exit_code is not None:
        if error.exit_code >= 0:
            return f"exit status {error.exit_code}"
        name = error.data.get("signal") or f"signal {-error.exit_code}"
        return f"ended by {name}{', since it writes too much' if name == 'SIGXFSZ' else ''}"
    return error.kind[:1].lower() + error.kind[1:]


def _kind(finding: str) -> ErrorKind:
    return next((kind for part, kind in _FINDINGS if part in finding), ErrorKind.MEMORY_ERROR)


def ran_out_of_memory(run: Run) -> bool:
    """Return whether a program was stopped for what it took of memory: it neither ended by itself nor was it slow."""
    return run["exit_code"] is None and run["signal"] is None and not run["timed_out"]


def _broken_off(run: Run) -> ValidationError | None:
    """Return the error of a run that was stopped, None if it ended by itself."""
    data = {"run": run["name"], "output": _head(run["stdout"]), "stderr": run["stderr"]}
    if run["timed_out"]:
        return ValidationError(kind=ErrorKind.EXECUTION_TIMEOUT, data=data)
    if run["signal"] is None:
        return None
    data["signal"] = run["signal"]
    if run["signal"] in _SIGNALS:
        return ValidationError(kind=_SIGNALS[run["signal"]], data=data)
    return ValidationError(kind=ErrorKind.RUNTIME_ERROR, exit_code=-_number(run["signal"]), data=data)


def _number(name: str) -> int:
    try:
        return int(signal.Signals[name])
    except KeyError:  # "signal 40": those of real time have no name
        return int(name.rpartition(" ")[2])


def _ending(run: Run) -> str:
    if run["timed_out"]:
        return "ran out of time"
    return f"ended by {run['signal']}" if run["signal"] else f"exit status {run['exit_code']}"


def _evidence(actual: Run, expected: Run, key: str) -> dict[str, Any]:
    return {"run": actual["name"], "expected": _head(expected[key]), "actual": _head(actual[key])}


def _digest(content: Mapping[str, Any] | None) -> str | None:
    return None if content is None else content["sha256"]


def _head(content: Mapping[str, Any] | None) -> str | None:
    return None if content is None else content["head"]
