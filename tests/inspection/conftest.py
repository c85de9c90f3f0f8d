"""A trained model to look inside."""

import pytest

import plugformer


@pytest.fixture(scope="session")
def model(trained):
    """The model of a finished run, not to be changed."""
    return plugformer.load(trained.directory)
