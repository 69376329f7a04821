"""Every dataset that comes with the package finds its names again, and takes numbers like a list."""

import pytest

from aiocg.datasets import BenchmarkNotFound, BenchmarkUri, Dataset, default_datasets

AT_HAND = [one for one in default_datasets().datasets() if one.installed or one.name == "sdist-v0"]


@pytest.mark.parametrize("dataset", AT_HAND, ids=lambda dataset: dataset.name)
def test_number_of_a_name_is_found(dataset: Dataset) -> None:
    for number in (0, 1, 17):
        assert dataset.position(dataset.uri_at(number)) == number
        assert dataset[number].uri == dataset.uri_at(number)
    with pytest.raises(BenchmarkNotFound):
        dataset.position(BenchmarkUri(dataset.scheme, dataset.name, "no/such program"))


@pytest.mark.parametrize("dataset", [one for one in AT_HAND if one.size], ids=lambda dataset: dataset.name)
def test_negative_numbers_count_from_the_end(dataset: Dataset) -> None:
    assert dataset[-1].uri == dataset.uri_at(len(dataset) - 1)
    with pytest.raises(IndexError):
        dataset[len(dataset)]
