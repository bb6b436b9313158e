"""Forks: a cluster for each test, from what the server has."""

import pytest

from keelson_test import ApiError

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def names(cluster):
    return {item["metadata"]["name"] for item in cluster.get(CONFIG_MAPS)["items"]}


def test_fork_has_what_the_server_has_and_keeps_its_changes_to_itself(keelson_server, keelson):
    keelson.create(CONFIG_MAPS, {"metadata": {"name": "mine"}})
    keelson_server.create(CONFIG_MAPS, {"metadata": {"name": "later"}})
    assert "mine" in names(keelson) and "later" not in names(keelson)
    assert "later" in names(keelson_server) and "mine" not in names(keelson_server)
    keelson.reset()
    assert not {"mine", "later"} & names(keelson)
    with keelson_server.fork() as second:
        assert "later" in names(second)


def test_fork_that_is_dropped_is_gone(keelson_server):
    with keelson_server.fork("short") as fork:
        assert "short" in {each["name"] for each in keelson_server.forks()}
        fork.get(CONFIG_MAPS)
    assert "short" not in {each["name"] for each in keelson_server.forks()}
    with pytest.raises(ApiError) as gone:
        fork.get(CONFIG_MAPS)
    assert gone.value.status == 404
    fork.drop()
