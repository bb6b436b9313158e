"""The fixtures for pytest."""

import pytest

from . import Server


@pytest.fixture(scope="session")
def keelson_flags():
    """Further flags of the server; to be overridden."""
    return []


@pytest.fixture(scope="session")
def keelson_server(keelson_flags):
    """One server for all tests."""
    with Server(keelson_flags) as server:
        yield server


@pytest.fixture
def keelson(keelson_server):
    """A cluster of the test's own: a fork of the server."""
    with keelson_server.fork() as fork:
        yield fork
