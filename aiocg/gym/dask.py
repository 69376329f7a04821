"""A plugin for Dask's workers: each has a runtime, which its tasks share."""

import logging
from typing import Any

from aiocg.errors import AiocgError
from aiocg.gym._runtime import SyncRuntime

try:
    from distributed import WorkerPlugin, get_worker
except ImportError:  # the name is known without Dask, too, and says what is missing when it is used
    WorkerPlugin = object

__all__ = ["RuntimePlugin", "runtime"]

NAME = "aiocg"

logger = logging.getLogger("aiocg.cluster")


class RuntimePlugin(WorkerPlugin):  # type: ignore[misc]  # as Dask has no types
    """Gives each of Dask's workers a runtime, for as long as the worker lives::

        client.register_plugin(RuntimePlugin(workers=2))
        client.submit(lambda uri: runtime().make("llvm-ic-v0", benchmark=uri).reset()[0], "programs-v0/gcd").result()

    Args:
        settings: as for `SyncRuntime`; they travel to the workers, so no keys are among them: those in the key folder
            of the worker's machine are used.

    Raises:
        AiocgError: if Dask is not installed.
    """

    name = NAME

    def __init__(self, **settings: Any) -> None:
        if WorkerPlugin is object:
            raise AiocgError("the plugin for Dask needs distributed: pip install 'aiocg[dask]'")
        if settings.get("keys") is not None:
            raise ValueError("keys do not travel with Dask: each machine has its own, made by `aiocg keys new`")
        self._settings = settings
        self.runtime: SyncRuntime | None = None

    def setup(self, worker: Any) -> None:
        """Make the runtime; its workers start with the first task that needs them."""
        self.runtime = SyncRuntime(**self._settings)
        logger.info("worker of Dask has a runtime", extra={"address": worker.address})

    def teardown(self, worker: Any) -> None:
        """Close the runtime."""
        made, self.runtime = self.runtime, None
        if made is not None:
            made.close()


def runtime() -> SyncRuntime:
    """Return the runtime of the Dask worker that runs the present task; any of its threads may use it.

    Raises:
        AiocgError: if the worker has none, as no `RuntimePlugin` was registered.
        ValueError: outside of a task.
    """
    plugin = get_worker().plugins.get(NAME)
    if plugin is None or plugin.runtime is None:
        raise AiocgError("this worker of Dask has no runtime: client.register_plugin(RuntimePlugin(...))")
    made: SyncRuntime = plugin.runtime
    return made
