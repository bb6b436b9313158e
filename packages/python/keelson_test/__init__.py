"""A Kubernetes control plane for each test.

A ``Server`` is the program ``keelson`` with its data in a temporary folder. A ``Fork`` of it is a cluster with the objects that the
server has at that moment and everything else of its own; making one takes milliseconds.
"""

import base64
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request

__all__ = ["ApiError", "Cluster", "Fork", "Server", "StartError"]

#: How long a server may take to start or to end, in seconds.
PATIENCE = 30


class StartError(Exception):
    """The server did not start; the text has what it wrote."""


class ApiError(Exception):
    """The server refused a request."""

    def __init__(self, status, body):
        message = body.get("message", "") if isinstance(body, dict) else body
        super().__init__(f"{status}: {message}")
        self.status = status
        self.body = body


class Cluster:
    """A control plane, and what a client needs to be its administrator."""

    def __init__(self, url, token, ca, folder):
        #: Where it serves; clients put the paths of the API behind it.
        self.url = url
        #: The administrator's token.
        self.token = token
        #: The file with the authority of its certificate.
        self.ca = ca
        #: A kubeconfig for its administrator.
        self.kubeconfig = os.path.join(folder, "kubeconfig-" + re.sub(r"\W", "-", url))
        self._context = ssl.create_default_context(cafile=ca)
        with open(os.open(self.kubeconfig, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            # A text of JSON is one of YAML, too.
            json.dump(self._config(), file)

    def _config(self):
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "keelson",
            "clusters": [{"name": "keelson", "cluster": {"server": self.url, "certificate-authority": self.ca}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "keelson", "context": {"cluster": "keelson", "user": "admin"}}],
        }

    def request(self, method, path, body=None, content_type="application/json"):
        """Sends a request with JSON, and returns the JSON of the answer (its text, if it is none)."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = content_type
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        # Nothing between this client and a server on the same host.
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._context)]
        try:
            with urllib.request.build_opener(*handlers).open(request, timeout=PATIENCE) as response:
                return _parsed(response.read())
        except urllib.error.HTTPError as error:
            with error:
                raise ApiError(error.code, _parsed(error.read())) from None

    def get(self, path):
        """The object at a path."""
        return self.request("GET", path)

    def create(self, path, body):
        """Creates an object in the collection at a path."""
        return self.request("POST", path, body)

    def delete(self, path):
        """Deletes the object at a path."""
        return self.request("DELETE", path)


class Fork(Cluster):
    """A cluster with the objects of its server at one moment. Used in ``with``, it is dropped at the end."""

    def __init__(self, server, made):
        super().__init__(made["server"].rstrip("/"), server.token, server.ca, server._folder)
        self.server = server
        #: Its name among the forks of the server.
        self.name = made["name"]
        #: The revision of the server that it began with.
        self.revision = made["revision"]

    def reset(self):
        """Puts everything back to where it was when the fork was made."""
        self.server.request("POST", f"/keelson/v1/forks/{self.name}/reset")

    def drop(self):
        """Ends the cluster. A second time, nothing happens."""
        try:
            self.server.request("DELETE", f"/keelson/v1/forks/{self.name}")
        except ApiError as error:
            if error.status != 404:
                raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.drop()


class Server(Cluster):
    """The program with its data in a temporary folder. Used in ``with``, it ends at the end.

    ``flags`` are further flags. Objects are in memory.
    """

    def __init__(self, flags=(), binary=None, environment=None):
        binary = binary or os.environ.get("KEELSON_BIN") or shutil.which("keelson")
        if not binary:
            raise StartError("there is no program keelson in the PATH; KEELSON_BIN can name it")
        self._folder = tempfile.mkdtemp(prefix="keelson-test-")
        data = os.path.join(self._folder, "data")
        arguments = [binary, "--secure-port=0", f"--data-dir={data}", "--storage=memory"]
        self._log = open(os.path.join(self._folder, "log"), "w+b")
        try:
            self._process = subprocess.Popen(
                [*arguments, *flags],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env={**os.environ, **(environment or {})},
            )
            url = self._ready()
            with open(os.path.join(data, "pki", "admin.token")) as file:
                token = file.read().strip()
            super().__init__(url, token, os.path.join(data, "pki", "ca.crt"), self._folder)
        except BaseException:
            self.stop()
            raise

    def _ready(self):
        found = []
        # A server that says nothing must not hold the tests up.
        timer = threading.Timer(PATIENCE, self._process.kill)
        timer.start()
        try:
            for line in self._process.stdout:
                match = re.search(rb" is ready on (\S+)", line)
                if match:
                    found.append(match.group(1).decode())
                    break
        finally:
            timer.cancel()
        if not found:
            self._process.wait()
            raise StartError(f"the server did not become ready; it wrote:\n{self.log()}")
        # What else it says is read too, so that it never waits.
        threading.Thread(target=self._process.stdout.read, daemon=True).start()
        return found[0]

    def log(self):
        """What the server has written to standard error so far."""
        with open(self._log.name, "rb") as file:
            return file.read().decode(errors="replace")

    def fork(self, name=None):
        """A cluster with the objects that the server has now."""
        return Fork(self, self.request("POST", "/keelson/v1/forks", {"name": name} if name else {}))

    def forks(self):
        """The forks that there are."""
        return self.request("GET", "/keelson/v1/forks")["items"]

    def stop(self):
        """Ends the server, and removes its folder."""
        process = getattr(self, "_process", None)
        if process and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process and process.stdout:
            process.stdout.close()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def _parsed(body):
    text = body.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text
