"""A server by itself: it starts, answers, refuses, and leaves nothing behind."""

import os

import pytest

from keelson_test import ApiError, Server, StartError

FLAGS = ["--controllers=-*"]
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"



def test_server_answers_and_leaves_nothing_behind(plain_server):
    folder = os.path.dirname(plain_server.kubeconfig)
    made = plain_server.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    assert plain_server.get(f"{CONFIG_MAPS}/a")["metadata"]["uid"] == made["metadata"]["uid"]
    with pytest.raises(ApiError) as refused:
        plain_server.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert refused.value.status == 409 and refused.value.body["reason"] == "AlreadyExists"
    assert plain_server.get("/healthz") == "ok"
    plain_server.delete(f"{CONFIG_MAPS}/a")
    assert oct(os.stat(plain_server.kubeconfig).st_mode & 0o777) == "0o600"
    plain_server.stop()
    assert not os.path.exists(folder)


def test_server_that_does_not_start_says_why():
    with pytest.raises(StartError, match="unknown flag: --nonsense"):
        Server(["--nonsense"])
    with pytest.raises(FileNotFoundError):
        Server(binary="/does/not/exist")


@pytest.fixture
def plain_server():
    with Server(FLAGS) as server:
        yield server
