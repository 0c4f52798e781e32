"""A real kube-apiserver over a real etcd, with pods that no machine runs and a kubelet that only has logs.

Debian has etcd (etcd-server) and the source of kube-apiserver (source package kubernetes), no package of it.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.parts import need
from tests.servers.slurm_cluster import free_ports

START_S = 200.0
TOKENS = {"admin": "system:masters", "jane": "people"}
"""User -> group; the token is the user's name twice. jane may look at pods, logs and events of `ml` only."""
LOOKING = {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": ["get", "list", "watch"]}
PODS = "/api/v1/namespaces/ml/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/ml"


@dataclass
class RealApiServer:
    """A running API server, and the logs of its pods."""

    folder: Path
    url: str
    logs: dict[str, list[str]] = field(default_factory=dict)

    def ask(self, verb: str, path: str, body: object = None) -> dict[str, Any]:
        """The object that the server answers with, as admin."""
        kind = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        headers = {"Authorization": "Bearer adminadmin", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=verb)  # noqa: S310 - loopback
        context = ssl._create_unverified_context()  # noqa: S323 - a certificate that it made itself
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:  # noqa: S310 - loopback
            found: dict[str, Any] = json.load(answer)
        return found

    def config(self, user: str) -> Path:
        """A kubeconfig of a user for the namespace `ml`."""
        path = self.folder / f"{user}.json"
        cluster = {"server": self.url, "insecure-skip-tls-verify": True}
        stated = {
            "clusters": [{"name": "drill", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": user * 2}}],
            "contexts": [{"name": "drill", "context": {"cluster": "drill", "user": user, "namespace": "ml"}}],
        }
        path.write_text(
            json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "drill", **stated})
        )
        return path

    def add_pod(self, described: dict[str, Any]) -> None:
        """A pod as `kubectl get` shows it: made, then given its status, as a kubelet does."""
        spec = described["spec"]
        containers = [{"image": "any", **each} for each in spec["containers"]]
        self.ask(
            "POST", PODS, {"metadata": described["metadata"], "spec": {**spec, "containers": containers}}
        )
        path = f"{PODS}/{described['metadata']['name']}/status"
        self.ask("PATCH", path, {"status": described["status"]})

    def add_event(self, kind: str, name: str, reason: str, message: str) -> None:
        """A failure that a controller reports now, of a pod in `ml` or of a machine."""
        space = "ml" if kind == "Pod" else "default"
        about = {
            "apiVersion": "v1",
            "kind": kind,
            "name": name,
            **({"namespace": space} if kind == "Pod" else {}),
        }
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        told = {"reason": reason, "message": message, "type": "Warning", "count": 1, "lastTimestamp": at}
        path = f"/api/v1/namespaces/{space}/events"
        self.ask(
            "POST", path, {"metadata": {"name": f"{name}.{reason.lower()}"}, "involvedObject": about, **told}
        )

    def add_node(self, name: str, kubelet: int) -> None:
        """A machine whose kubelet listens on a port of loopback."""
        self.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}},
        }
        self.ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})


@contextlib.contextmanager
def real_api_server(folder: Path) -> Iterator[RealApiServer]:
    """Start it with the namespace `ml`, the machines gpu-0 and gpu-1, and two users."""
    etcd, server = need("etcd"), need("kube-apiserver")
    client, peer, port = free_ports(3)
    store, known = f"http://127.0.0.1:{client}", RealApiServer(folder, f"https://127.0.0.1:{port}")
    write_keys(folder)
    stored = [f"--data-dir={folder}/etcd", f"--listen-client-urls={store}", "--unsafe-no-fsync"]
    stored += [f"--advertise-client-urls={store}", f"--listen-peer-urls=http://127.0.0.1:{peer}"]
    options = [f"--etcd-servers={store}", f"--secure-port={port}", "--bind-address=127.0.0.1"]
    options += ["--advertise-address=192.0.2.1", "--service-cluster-ip-range=10.0.0.0/24"]
    options += [f"--cert-dir={folder}/certs", f"--token-auth-file={folder}/tokens.csv"]
    options += [
        f"--service-account-{name}" for name in (f"key-file={folder}/key.pub", "issuer=https://drill")
    ]
    options += [f"--service-account-signing-key-file={folder}/key", "--authorization-mode=RBAC"]
    options += ["--disable-admission-plugins=ServiceAccount"]
    started = [
        background(folder / "etcd.log", [etcd, *stored]),
        background(folder / "api.log", [server, *options]),
    ]
    try:
        wait_until_ready(known)
        known.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "ml"}})
        known.ask("POST", f"{RBAC}/roles", {"metadata": {"name": "look"}, "rules": [LOOKING]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "look"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
        binding = {"metadata": {"name": "look"}, "roleRef": role, "subjects": [subject]}
        known.ask("POST", f"{RBAC}/rolebindings", binding)
        with kubelet(known) as listening:
            for index in range(2):
                known.add_node(f"gpu-{index}", listening)
            yield known
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)


def background(log: Path, argv: list[str]) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(argv, stdout=output, stderr=output)


def write_keys(folder: Path) -> None:
    """The key that signs service accounts, and the tokens of the users."""
    key = rsa.generate_private_key(65537, 2048)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    )
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "key.pub").write_bytes(public)
    rows = (f'{user * 2},{user},{number},"{group}"' for number, (user, group) in enumerate(TOKENS.items()))
    (folder / "tokens.csv").write_text("\n".join(rows) + "\n")


def wait_until_ready(known: RealApiServer) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError, urllib.error.URLError):
            known.ask("GET", "/api/v1/namespaces/default")
            return
        time.sleep(0.5)
    raise AssertionError((known.folder / "api.log").read_text()[-3000:])


@contextlib.contextmanager
def kubelet(known: RealApiServer) -> Iterator[int]:
    """What the server asks for logs, with the server's own certificate: the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """/containerLogs/NAMESPACE/POD/CONTAINER, followed for as long as the other side reads."""
            parts = self.path.partition("?")[0].split("/")
            lines = known.logs.get(parts[3], []) if parts[1] == "containerLogs" else []
            self.send_response(200)
            self.end_headers()
            sent = 0
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write("".join(f"{line}\n" for line in lines[sent:]).encode())
                    sent = len(lines)
                    if "follow=true" not in self.path:
                        return
                    time.sleep(0.2)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certs = known.folder / "certs"
    context.load_cert_chain(certs / "apiserver.crt", certs / "apiserver.key")
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield listening.server_port
    finally:
        listening.shutdown()
        listening.server_close()
