"""Both sides find out that they speak different versions, and say what to do."""

import pytest

from aiocg.transport.errors import RemoteProtocolError, VersionError
from aiocg.transport.messages import (
    PROTOCOL_VERSION,
    Done,
    FailureCode,
    Hello,
    Refused,
    Welcome,
    check_hello,
    check_welcome,
)

OTHER = PROTOCOL_VERSION + 1


def test_a_client_of_the_same_version_is_served():
    assert check_hello(Hello(PROTOCOL_VERSION, "aiocg 0.1")) is None


def test_a_client_of_another_version_is_told_both_versions_and_what_to_do():
    refused = check_hello(Hello(OTHER, "aiocg 9.0"))
    assert refused is not None
    assert refused.code == FailureCode.PROTOCOL
    for part in (f"version {PROTOCOL_VERSION}", f"version {OTHER}", "aiocg 9.0", "install the same release"):
        assert part in refused.message
    with pytest.raises(VersionError, match="install the same release"):
        check_welcome(refused)


def test_a_worker_of_another_version_is_refused_by_the_client():
    welcome = Welcome(OTHER, "llvm", "22", 1, (), ())
    with pytest.raises(VersionError, match=f"version {PROTOCOL_VERSION} .* version {OTHER}") as caught:
        check_welcome(welcome)
    assert (caught.value.local, caught.value.remote) == (PROTOCOL_VERSION, OTHER)


def test_an_answer_of_the_same_version_is_returned():
    welcome = Welcome(PROTOCOL_VERSION, "llvm", "22", 1, (), ())
    assert check_welcome(welcome) is welcome
    refused = Refused(FailureCode.COMPILER, "no libLLVM")
    assert check_welcome(refused) is refused


def test_any_other_first_reply_is_an_error():
    with pytest.raises(RemoteProtocolError, match="got Done"):
        check_welcome(Done(1))
