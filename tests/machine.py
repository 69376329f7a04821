"""What a machine may lack that tests need."""

import subprocess

import pytest

from aiocg.datasets.frontend import missing_header
from aiocg.datasets.toolchain import find_clang

_READ = subprocess.run(
    [find_clang(), "-E", "-x", "c", "-", "-o", "/dev/null"], input=b"#include <stdio.h>", capture_output=True
)
has_headers = not missing_header(_READ.stderr.decode())
needs_headers = pytest.mark.skipif(not has_headers, reason="needs the headers of the C library: apt install libc6-dev")
