"""An operator made with the Python client: python_operator.py URL TOKEN CA NAMESPACE SECONDS

It keeps a config map for each job ticket, owned by the ticket, notes in the status what it did, and has a finalizer. Beside it tickets are made,
changed and removed for some seconds. In the end everything is as it was asked for.
"""
import random
import sys
import threading
import time

from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

GROUP, VERSION, PLURAL = "example.com", "v1", "tickets"
FINALIZER = "example.com/tickets"
PATIENCE = 30

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": PLURAL, "singular": "ticket", "kind": "Ticket"},
        "versions": [{
            "name": VERSION, "served": True, "storage": True, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "required": ["subject"], "properties": {
                    "subject": {"type": "string", "minLength": 1},
                    "priority": {"type": "string", "enum": ["low", "high"], "default": "low"},
                }},
                "status": {"type": "object", "properties": {
                    "observedGeneration": {"type": "integer"}, "subject": {"type": "string"}}},
            }}},
        }],
    },
}


def connect(url, token, ca):
    configuration = client.Configuration()
    configuration.host, configuration.ssl_ca_cert = url, ca
    configuration.api_key = {"authorization": token}
    configuration.api_key_prefix = {"authorization": "Bearer"}
    return client.ApiClient(configuration)


def unless_missing(call):
    """Another one was quicker: what is gone needs nothing more, and what changed is seen again."""
    try:
        return call()
    except ApiException as error:
        if error.status not in (404, 409):
            raise
        return None


class Operator(threading.Thread):
    def __init__(self, api, namespace):
        super().__init__(daemon=True)
        self.custom, self.core, self.namespace = client.CustomObjectsApi(api), client.CoreV1Api(api), namespace
        self.place = (GROUP, VERSION, namespace, PLURAL)
        self.cleaned, self.failure, self.stopping = set(), None, threading.Event()

    def run(self):
        try:
            while not self.stopping.is_set():
                self.follow()
        except Exception as error:  # noqa: the test shows it
            self.failure = error

    def follow(self):
        listed = self.custom.list_namespaced_custom_object(*self.place)
        for ticket in listed["items"]:
            self.reconcile(ticket)
        version, stream = listed["metadata"]["resourceVersion"], watch.Watch()
        for event in stream.stream(
                self.custom.list_namespaced_custom_object, *self.place, resource_version=version, timeout_seconds=5):
            if event["type"] in ("ADDED", "MODIFIED"):
                self.reconcile(event["object"])
            if self.stopping.is_set():
                return

    def reconcile(self, ticket):
        metadata = ticket["metadata"]
        name, finalizers = metadata["name"], metadata.get("finalizers", [])
        if "deletionTimestamp" in metadata:
            if FINALIZER in finalizers:
                self.cleaned.add(metadata["uid"])
                self.change(ticket, {"metadata": {"finalizers": [f for f in finalizers if f != FINALIZER]}})
            return
        if FINALIZER not in finalizers:
            # The change is an event, and the rest is done then.
            self.change(ticket, {"metadata": {"finalizers": finalizers + [FINALIZER]}})
            return
        subject = ticket["spec"]["subject"]
        if ticket.get("status", {}).get("observedGeneration") == metadata["generation"]:
            return
        owner = client.V1OwnerReference(
            api_version=f"{GROUP}/{VERSION}", kind="Ticket", name=name, uid=metadata["uid"], controller=True)
        page = client.V1ConfigMap(
            metadata=client.V1ObjectMeta(name=name, labels={"ticket": "yes"}, owner_references=[owner]),
            data={"subject": subject, "priority": ticket["spec"]["priority"]})
        if unless_missing(lambda: self.core.create_namespaced_config_map(self.namespace, page)) is None:
            unless_missing(lambda: self.core.replace_namespaced_config_map(name, self.namespace, page))
        status = {"observedGeneration": metadata["generation"], "subject": subject}
        unless_missing(lambda: self.custom.patch_namespaced_custom_object_status(
            *self.place, name, {"status": status}))

    def change(self, ticket, patch):
        patch["metadata"]["resourceVersion"] = ticket["metadata"]["resourceVersion"]
        unless_missing(lambda: self.custom.patch_namespaced_custom_object(
            *self.place, ticket["metadata"]["name"], patch))


def churn(custom, place, seconds):
    """Makes, changes and removes tickets; the uids of those that were removed, and the names of those that are left."""
    generator, live, removed, number = random.Random(7), {}, set(), 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        number += 1
        what = generator.random()
        if what < 0.4 and len(live) < 40 or not live:
            name = f"t{number}"
            body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Ticket", "metadata": {"name": name},
                    "spec": {"subject": f"subject {number}"}}
            made = custom.create_namespaced_custom_object(*place, body)
            assert made["spec"]["priority"] == "low", made
            live[name] = made["metadata"]["uid"]
        elif what < 0.75:
            patch = {"spec": {"subject": f"changed {number}", "priority": "high"}}
            custom.patch_namespaced_custom_object(*place, generator.choice(sorted(live)), patch)
        else:
            name = generator.choice(sorted(live))
            custom.delete_namespaced_custom_object(*place, name)
            removed.add(live.pop(name))
        time.sleep(generator.random() * 0.02)
    return removed, live


def unfinished(operator, live):
    tickets = operator.custom.list_namespaced_custom_object(*operator.place)["items"]
    if {ticket["metadata"]["name"] for ticket in tickets} != set(live):
        return "other tickets are there"
    for ticket in tickets:
        status = ticket.get("status", {})
        if status.get("observedGeneration") != ticket["metadata"]["generation"]:
            return f"{ticket['metadata']['name']} was not seen in its last state"
        if status.get("subject") != ticket["spec"]["subject"]:
            return f"the status of {ticket['metadata']['name']} is of another state"
    pages = operator.core.list_namespaced_config_map(operator.namespace, label_selector="ticket").items
    wanted = {ticket["metadata"]["name"]: ticket["spec"]["subject"] for ticket in tickets}
    there = {page.metadata.name: page.data["subject"] for page in pages}
    return None if there == wanted else "the config maps are others"


def main(url, token, ca, namespace, seconds):
    with connect(url, token, ca) as api, connect(url, token, ca) as own:
        client.CoreV1Api(api).create_namespace(
            client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
        client.ApiextensionsV1Api(api).create_custom_resource_definition(DEFINITION)
        operator = Operator(own, namespace)
        custom = client.CustomObjectsApi(api)
        try:
            custom.create_namespaced_custom_object(*operator.place, {
                "apiVersion": f"{GROUP}/{VERSION}", "kind": "Ticket", "metadata": {"name": "x"}, "spec": {}})
            raise AssertionError("a ticket without a subject was taken")
        except ApiException as error:
            assert error.status == 422 and "spec.subject: Required value" in error.body, error
        operator.start()
        removed, live = churn(custom, operator.place, float(seconds))
        begun = time.monotonic()
        while (what := unfinished(operator, live)) is not None or operator.failure:
            assert operator.failure is None, repr(operator.failure)
            assert time.monotonic() - begun < PATIENCE, what
            time.sleep(0.1)
        operator.stopping.set()
        assert len(removed) > 20, removed
        assert operator.cleaned <= removed, "only what was removed is cleaned up"
        assert len(operator.cleaned) * 2 > len(removed), (len(operator.cleaned), len(removed))
        print("passed", flush=True)


main(*sys.argv[1:])
