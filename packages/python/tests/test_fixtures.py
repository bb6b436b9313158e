"""The fixtures: each test has a cluster of its own."""

import pytest

from keelson_test import ApiError

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="session")
def keelson_flags():
    return ["--controllers=-*"]


@pytest.fixture(scope="session", autouse=True)
def shared(keelson_server):
    keelson_server.create(CONFIG_MAPS, {"metadata": {"name": "shared"}, "data": {"k": "v"}})


@pytest.mark.parametrize("number", range(3))
def test_each_test_has_a_cluster_of_its_own(keelson, number):
    assert keelson.get(f"{CONFIG_MAPS}/shared")["data"] == {"k": "v"}
    # It was not left by the test before.
    keelson.create(CONFIG_MAPS, {"metadata": {"name": "mine"}})
    keelson.delete(f"{CONFIG_MAPS}/shared")
    assert keelson.url in open(keelson.kubeconfig).read()


def test_reset_puts_everything_back(keelson):
    keelson.delete(f"{CONFIG_MAPS}/shared")
    keelson.reset()
    assert keelson.get(f"{CONFIG_MAPS}/shared")["data"] == {"k": "v"}


def test_drop_ends_the_cluster(keelson, keelson_server):
    fork = keelson_server.fork("by-name")
    assert fork.name == "by-name"
    fork.drop()
    fork.drop()
    with pytest.raises(ApiError) as gone:
        fork.get(CONFIG_MAPS)
    assert gone.value.status == 404


def test_faults_are_injected_and_end(keelson, keelson_server):
    rule = {
        "name": "busy",
        "match": {"verbs": ["create"], "resources": ["configmaps"]},
        "fault": {"error": {"code": 503}},
    }
    assert keelson.faults([rule], seed=7)["seed"] == 7
    with pytest.raises(ApiError) as refused:
        keelson_server.create(CONFIG_MAPS, {"metadata": {"name": "refused"}})
    assert refused.value.status == 503
    assert keelson_server.injected()["rules"][0]["injected"] == 1
    keelson.clear_faults()
    keelson_server.create(CONFIG_MAPS, {"metadata": {"name": "refused"}})


def test_clock_moves(keelson):
    before = keelson.now()
    keelson.step("48h")
    assert keelson.now()[:10] > before[:10]
