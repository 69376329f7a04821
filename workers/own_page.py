"""A worker's end of its status page, which also detects that an action has closed the worker's descriptors."""

import os

from aiocg.transport.status import NO_CANDIDATE, StatusPage

MARK = 1 << 40  # offset in bytes, which no file that reuses the page's descriptor has


class OwnPage(StatusPage):
    """A status page that ends its process if an action has closed the page's descriptor, as others are then closed too.

    It does so before the next execution begins, so that the page still names the guilty one.
    """

    def __init__(self, descriptor: int) -> None:
        """Use an inherited descriptor."""
        super().__init__(descriptor)
        os.lseek(descriptor, MARK, os.SEEK_SET)
        self._executing = False

    def begin(self, client: int, session: int, request: int, timeout: float, candidate: int = NO_CANDIDATE) -> None:
        """Record that a request starts now; see `StatusPage.begin`."""
        if self._executing and not self._is_intact():
            os._exit(1)
        self._executing = request > 0
        super().begin(client, session, request, timeout, candidate)

    def _is_intact(self) -> bool:
        try:
            return os.lseek(self.descriptor, 0, os.SEEK_CUR) == MARK
        except OSError:
            return False
