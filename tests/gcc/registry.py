"""A registry of one image, for engines on this machine to pull from."""

import contextlib
import gzip
import hashlib
import json
import platform
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["Registry", "registry"]

DOCKER = "application/vnd.docker."
MANIFEST = f"{DOCKER}distribution.manifest.v2+json"


class Registry:
    """What a registry has.

    Attributes:
        host: its name and port.
        asked: the paths that were asked for.
    """

    def __init__(self, host: str, rootfs: Path) -> None:
        self.host = host
        self.asked: list[str] = []
        archive = rootfs.read_bytes()
        layer = gzip.compress(archive, 1)
        config = {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Env": ["PATH=/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(archive)]},
            "history": [{}],
        }
        self.blobs = {_digest(blob): blob for blob in (layer, json.dumps(config).encode())}
        layers, configs = (
            {"mediaType": f"{DOCKER}{kind}", "size": len(blob), "digest": digest}
            for kind, (digest, blob) in zip(
                ("image.rootfs.diff.tar.gzip", "container.image.v1+json"), self.blobs.items(), strict=True
            )
        )
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": configs, "layers": [layers]}
        self.manifest = json.dumps(manifest).encode()

    def content(self, path: str) -> tuple[str, bytes] | None:
        """Return kind and content of what lies at a path; None when there is nothing."""
        self.asked.append(path)
        if path == "/v2/":
            return "application/json", b"{}"
        if path in ("/v2/gcc/manifests/13", f"/v2/gcc/manifests/{_digest(self.manifest)}"):
            return MANIFEST, self.manifest
        blob = self.blobs.get(path.removeprefix("/v2/gcc/blobs/"))
        return blob and ("application/octet-stream", blob)


@contextlib.contextmanager
def registry(rootfs: Path) -> Iterator[Registry]:
    """Serve an archive of files as the image `gcc:13`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = serving.content(self.path)
            kind, content = found or ("text/plain", b"there is none")
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Docker-Content-Digest", _digest(content))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = Registry(f"127.0.0.1:{server.server_port}", rootfs)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield serving
        finally:
            server.shutdown()
            thread.join()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
