"""The datasets that come with the package, and those that the user has made."""

from aiocg.datasets.collection import Datasets
from aiocg.datasets.generators.csmith import CsmithDataset
from aiocg.datasets.generators.llvm_stress import LlvmStressDataset
from aiocg.datasets.generators.random_c.dataset import RandomProgramsDataset
from aiocg.datasets.loop_nests.dataset import LoopNestsDataset
from aiocg.datasets.loop_nests.loop_tool import LoopToolDataset
from aiocg.datasets.own.installed import own_datasets
from aiocg.datasets.programs import ProgramsDataset
from aiocg.datasets.published import published_datasets
from aiocg.datasets.sdist import SdistDataset

__all__ = ["default_datasets"]


def default_datasets() -> Datasets:
    """Return a new collection of the datasets that come with the package, and of the user's own.

    It costs a look at one folder: nothing is fetched, and no list of names is read.
    """
    return Datasets(
        [
            *own_datasets(),
            ProgramsDataset(),
            RandomProgramsDataset(),
            CsmithDataset(),
            LlvmStressDataset(),
            SdistDataset(),
            *published_datasets(),
            LoopNestsDataset(),
            LoopToolDataset("cpu"),
            LoopToolDataset("cuda"),
        ]
    )
