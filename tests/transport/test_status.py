"""The status page: one process writes, another reads at any moment."""

import os
import signal
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from aiocg.transport.status import NO_CANDIDATE, Counts, StatusPage


@pytest.fixture
def page() -> Iterator[StatusPage]:
    page = StatusPage.create()
    yield page
    page.close()


def test_a_new_page_says_that_nothing_is_executed(page: StatusPage) -> None:
    assert page.read() == (0, None)


def test_what_begins_is_read_until_it_ends(page: StatusPage) -> None:
    page.begin(2**32 - 1, 2**63, 2**64 - 1, 1.5, 7)
    _, execution = page.read()
    assert execution is not None
    assert (execution.client, execution.session, execution.request) == (2**32 - 1, 2**63, 2**64 - 1)
    assert execution.candidate == 7
    assert execution.deadline - execution.started == pytest.approx(1.5)
    page.end()
    assert page.read()[1] is None


def test_a_request_has_no_candidate_unless_told(page: StatusPage) -> None:
    page.begin(1, 2, 3, 1.0)
    _, execution = page.read()
    assert execution is not None and execution.candidate == NO_CANDIDATE


def test_every_write_changes_the_sequence_number(page: StatusPage) -> None:
    seen = [page.read()[0]]
    for _ in range(3):
        page.begin(1, 2, 3, 1.0)
        seen.append(page.read()[0])
        page.end()
        seen.append(page.read()[0])
    assert len(set(seen)) == len(seen) and not any(sequence % 2 for sequence in seen)


def test_reading_changes_nothing(page: StatusPage) -> None:
    page.begin(1, 2, 3, 1.0)
    assert page.read() == page.read()


def test_a_writer_that_died_in_the_middle_still_names_who_was_executing(page: StatusPage) -> None:
    page.begin(1, 2, 3, 1.0, 4)
    struct.pack_into("<Q", page._memory, 0, 3)  # the first thing a write does
    sequence, execution = page.read()
    assert sequence == 3
    assert execution is not None and (execution.client, execution.session, execution.request) == (1, 2, 3)


def test_a_page_may_be_closed_twice() -> None:
    page = StatusPage.create()
    page.close()
    page.close()
    assert page.descriptor == -1


def test_a_page_leaves_no_name_anywhere(page: StatusPage) -> None:
    assert os.readlink(f"/proc/self/fd/{page.descriptor}").startswith("/memfd:")


WRITER = textwrap.dedent("""
    import sys
    from aiocg.transport.status import StatusPage

    page = StatusPage(int(sys.argv[1]))
    print("ready", flush=True)
    number = 0
    while True:
        number += 1
        page.begin(number, number, number, 10.0, number)
        if number % 3 == 0:
            page.end()
""")


@pytest.fixture
def writer(page: StatusPage) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes as fast as it can, the same number into every field."""
    command = [sys.executable, "-P", "-c", WRITER, str(page.descriptor)]
    with subprocess.Popen(command, pass_fds=(page.descriptor,), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_reader_beside_the_writer_sees_whole_writes_only(page: StatusPage, writer: subprocess.Popen[bytes]) -> None:
    while page.read()[0] == 0:
        pass
    last, reads, numbers = 0, 0, set()
    while reads < 20_000 or len(numbers) < 10:  # the machine may let one of the two wait for the other
        reads += 1
        sequence, execution = page.read()
        assert sequence >= last
        last = sequence
        if execution is not None:
            fields = {execution.client, execution.session, execution.request, execution.candidate}
            assert len(fields) == 1
            assert execution.deadline - execution.started == pytest.approx(10.0)
            numbers |= fields


def test_a_writer_killed_at_any_moment_leaves_a_page_that_can_be_read(
    page: StatusPage, writer: subprocess.Popen[bytes]
) -> None:
    while page.read()[0] < 1000:
        pass
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    sequence, execution = page.read()
    assert (sequence, execution) == page.read()
    if execution is not None:
        assert execution.client == execution.session == execution.request


def test_counts_are_read_beside_what_is_executed(page: StatusPage) -> None:
    assert page.counts() == Counts()
    page.begin(1, 2, 3, 1.0)
    page.count(4, 5, 2**63, 7, 1.25, 8, 9)
    assert page.counts() == Counts(4, 5, 2**63, 7, 1.25, 8, 9)
    assert page.read()[1] is not None
