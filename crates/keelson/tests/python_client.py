"""The Python client against a server: python_client.py URL TOKEN CA NAMESPACE [PART...]

Each part is a name of PARTS; without any, all of them run. The first thing that is not as it should be ends it with a
traceback.
"""
import sys
import threading

from kubernetes import client, dynamic, watch
from kubernetes.client.exceptions import ApiException

PATIENCE = 20


def connect(url, token, ca):
    configuration = client.Configuration()
    configuration.host = url
    configuration.ssl_ca_cert = ca
    configuration.api_key = {"authorization": token}
    configuration.api_key_prefix = {"authorization": "Bearer"}
    return client.ApiClient(configuration)


def refused(call, status, reason):
    try:
        call()
    except ApiException as error:
        assert error.status == status, error
        assert f'"reason":"{reason}"' in error.body, error.body
    else:
        raise AssertionError(f"{reason} was expected")


def config_map(name, data, labels=None):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels), data=data)


def crud(core, namespace):
    made = core.create_namespaced_config_map(namespace, config_map("a", {"x": "1"}))
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo is not None, made
    refused(lambda: core.create_namespaced_config_map(namespace, config_map("a", {})), 409, "AlreadyExists")
    read = core.read_namespaced_config_map("a", namespace)
    assert read == made, (read, made)

    read.data["y"] = "2"
    written = core.replace_namespaced_config_map("a", namespace, read)
    assert written.data == {"x": "1", "y": "2"}
    assert int(written.metadata.resource_version) > int(made.metadata.resource_version)
    refused(lambda: core.replace_namespaced_config_map("a", namespace, made), 409, "Conflict")

    refused(lambda: core.read_namespaced_config_map("none", namespace), 404, "NotFound")
    bad = config_map("Bad_Name", {})
    refused(lambda: core.create_namespaced_config_map(namespace, bad), 422, "Invalid")
    assert core.delete_namespaced_config_map("a", namespace).status == "Success"
    refused(lambda: core.read_namespaced_config_map("a", namespace), 404, "NotFound")


def patches(core, apps, namespace):
    core.create_namespaced_config_map(namespace, config_map("p", {"x": "1", "y": "2"}))
    merged = core.patch_namespaced_config_map("p", namespace, {"data": {"x": None, "z": "3"}})
    assert merged.data == {"y": "2", "z": "3"}, merged.data
    operations = [{"op": "replace", "path": "/data/y", "value": "5"}]
    patched = core.patch_namespaced_config_map("p", namespace, operations)
    assert patched.data == {"y": "5", "z": "3"}, patched.data

    container = client.V1Container(name="web", image="example.com/web:1")
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=client.V1PodSpec(containers=[container])
    )
    spec = client.V1DeploymentSpec(
        replicas=1, selector=client.V1LabelSelector(match_labels={"app": "web"}), template=template
    )
    deployment = client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    apps.create_namespaced_deployment(namespace, deployment)
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side:1"}]}}}}
    names = [c.name for c in apps.patch_namespaced_deployment("web", namespace, side).spec.template.spec.containers]
    assert names == ["side", "web"], names
    scale = apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 4}})
    assert scale.spec.replicas == 4 and scale.status.selector == "app=web", scale
    assert apps.read_namespaced_deployment("web", namespace).metadata.generation == 3


def lists(core, namespace):
    for number in range(25):
        labels = {"list": "yes", "half": "even" if number % 2 == 0 else "odd"}
        core.create_namespaced_config_map(namespace, config_map(f"l{number:02}", {}, labels))
    names, token, pages = [], None, 0
    while True:
        page = core.list_namespaced_config_map(namespace, label_selector="list=yes", limit=10, _continue=token)
        names += [item.metadata.name for item in page.items]
        token, pages = page.metadata._continue, pages + 1
        if not token:
            break
        assert page.metadata.remaining_item_count is None, "a selected list does not know what remains"
    assert names == [f"l{number:02}" for number in range(25)] and pages == 3, (names, pages)
    even = core.list_namespaced_config_map(namespace, label_selector="list,half in (even)")
    assert len(even.items) == 13
    one = core.list_namespaced_config_map(namespace, field_selector="metadata.name=l07")
    assert [item.metadata.name for item in one.items] == ["l07"]
    core.delete_collection_namespaced_config_map(namespace, label_selector="half=odd")
    assert len(core.list_namespaced_config_map(namespace, label_selector="list").items) == 13


def watches(core, namespace):
    core.create_namespaced_config_map(namespace, config_map("w0", {}, {"watch": "yes"}))
    start = core.list_namespaced_config_map(namespace, label_selector="watch").metadata.resource_version

    def change():
        core.create_namespaced_config_map(namespace, config_map("w1", {"x": "1"}, {"watch": "yes"}))
        core.patch_namespaced_config_map("w1", namespace, {"data": {"x": "2"}})
        core.patch_namespaced_config_map("w0", namespace, {"metadata": {"labels": {"watch": None}}})
        core.delete_namespaced_config_map("w1", namespace)

    changes = threading.Thread(target=change)
    changes.start()
    seen, stream = [], watch.Watch()
    for event in stream.stream(
        core.list_namespaced_config_map,
        namespace,
        label_selector="watch",
        resource_version=start,
        timeout_seconds=PATIENCE,
    ):
        seen.append((event["type"], event["object"].metadata.name, event["object"].data))
        if len(seen) == 4:
            stream.stop()
    changes.join()
    assert seen == [
        ("ADDED", "w1", {"x": "1"}),
        ("MODIFIED", "w1", {"x": "2"}),
        ("DELETED", "w0", None),
        ("DELETED", "w1", {"x": "2"}),
    ], seen

    again = [
        event["type"]
        for event in watch.Watch().stream(
            core.list_namespaced_config_map, namespace, label_selector="watch", resource_version=start, timeout_seconds=1
        )
    ]
    assert again == ["ADDED", "MODIFIED", "DELETED", "DELETED"], again


def any_kind(api, namespace):
    leases = dynamic.DynamicClient(api).resources.get(api_version="coordination.k8s.io/v1", kind="Lease")
    leases.create(namespace=namespace, body=lease({"holderIdentity": "me", "leaseDurationSeconds": 15}))
    assert leases.get(name="d", namespace=namespace).spec.holderIdentity == "me"
    patch = lease({"leaseDurationSeconds": 20})
    leases.patch(namespace=namespace, body=patch, content_type="application/merge-patch+json")
    spec = leases.get(name="d", namespace=namespace).spec
    assert spec.holderIdentity == "me" and spec.leaseDurationSeconds == 20, spec
    assert [item.metadata.name for item in leases.get(namespace=namespace).items] == ["d"]
    leases.delete(name="d", namespace=namespace)
    assert leases.get(namespace=namespace).items == []


def apply(api, namespace):
    leases = dynamic.DynamicClient(api).resources.get(api_version="coordination.k8s.io/v1", kind="Lease")
    leases.create(namespace=namespace, body=lease({"holderIdentity": "me", "leaseDurationSeconds": 15}))
    body = lease({"leaseDurationSeconds": 30})
    applied = leases.server_side_apply(namespace=namespace, body=body, field_manager="python", force_conflicts=True)
    assert applied.spec.holderIdentity == "me" and applied.spec.leaseDurationSeconds == 30, applied
    assert "python" in [entry.manager for entry in applied.metadata.managedFields]
    leases.delete(name="d", namespace=namespace)


def lease(spec):
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "d"}, "spec": spec}


PARTS = {
    "objects": lambda api, namespace: crud(client.CoreV1Api(api), namespace),
    "patches": lambda api, namespace: patches(client.CoreV1Api(api), client.AppsV1Api(api), namespace),
    "lists": lambda api, namespace: lists(client.CoreV1Api(api), namespace),
    "watches": lambda api, namespace: watches(client.CoreV1Api(api), namespace),
    "any-kind": any_kind,
    "apply": apply,
}


def main(url, token, ca, namespace, *parts):
    with connect(url, token, ca) as api:
        version = client.VersionApi(api).get_code()
        assert (version.major, version.minor) == ("1", "33"), version
        metadata = client.V1ObjectMeta(name=namespace)
        client.CoreV1Api(api).create_namespace(client.V1Namespace(metadata=metadata))
        for part in parts or PARTS:
            PARTS[part](api, namespace)
            print(part, "passed", flush=True)


main(*sys.argv[1:])
