"""Of Kubernetes only what it says of pods: any that it is asked for is in the phase it is told."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Pods:
    """The phases that are yet to be said, and the paths that were asked for."""

    kubeconfig: Path
    phases: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)


@contextlib.contextmanager
def pods_of_kubernetes(kubeconfig: Path) -> Iterator[Pods]:
    """Answer on a free loopback port, which a file says to those who look for Kubernetes."""
    pods = Pods(kubeconfig)

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pods.asked.add(self.path)
            self._say({"status": {"phase": pods.phases.pop(0)}})

        def do_DELETE(self) -> None:
            self._say({})

        def _say(self, pod: object) -> None:
            body = json.dumps(pod).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *said: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        write_kubeconfig(kubeconfig, f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield pods
        finally:
            server.shutdown()
            thread.join()


def write_kubeconfig(path: Path, url: str) -> None:
    """Say where Kubernetes is; JSON is YAML."""
    config = {
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "users": [{"name": "me", "user": {}}],
    }
    path.write_text(json.dumps(config))
