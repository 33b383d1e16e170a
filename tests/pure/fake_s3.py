"""An object store on loopback with as much of S3's protocol as a history needs: list, put, in parts too, get, head."""

from __future__ import annotations

import contextlib
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.sax.saxutils import escape


@contextlib.contextmanager
def fake_s3() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Its address, and its objects by bucket and key."""
    server = _Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.objects
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}  # of objects that are being put


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        objects, (name, query) = self.server.objects, self._asked()
        if name.startswith("denied"):
            self._answer(403, b"")
        elif "list-type" in query:
            self._answer(200, _listing(objects, name, query.get("prefix", "")))
        elif name not in objects:
            self._answer(404, b"")
        else:
            self._part(objects[name])

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        name, query = self._asked()
        content = self._content()
        if "partNumber" in query:
            self.server.parts[name][int(query["partNumber"])] = content
        else:
            self.server.objects[name] = content
        self._answer(200, b"")

    def do_POST(self) -> None:
        """A put in parts: its begin, which names it, or its end, which joins them."""
        name, query = self._asked()
        self._content()
        if "uploads" in query:
            self.server.parts[name] = {}
            self._answer(200, _uploading(name, "InitiateMultipartUploadResult", "<UploadId>1</UploadId>"))
            return
        self.server.objects[name] = b"".join(part for _, part in sorted(self.server.parts.pop(name).items()))
        self._answer(200, _uploading(name, "CompleteMultipartUploadResult", "<ETag>&quot;x&quot;</ETag>"))

    def _content(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urllib.parse.urlsplit(self.path)
        return urllib.parse.unquote(parts.path).lstrip("/"), dict(
            urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
        )

    def _part(self, content: bytes) -> None:
        wanted = self.headers.get("Range", "").removeprefix("bytes=")
        if not wanted:
            self._answer(200, content)
            return
        first, _, last = wanted.partition("-")
        begin = int(first) if first else max(0, len(content) - int(last))
        end = min(int(last) + 1 if first and last else len(content), len(content))
        self._answer(206, content[begin:end], {"Content-Range": f"bytes {begin}-{end - 1}/{len(content)}"})

    def _answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        modified = "Mon, 30 Nov 2026 00:00:00 GMT"
        given = {"Content-Length": str(len(content)), "ETag": '"x"', "Last-Modified": modified, **(headers or {})}
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def _uploading(name: str, root: str, rest: str) -> bytes:
    bucket, _, key = name.partition("/")
    named = f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key>"
    return f'<?xml version="1.0" encoding="UTF-8"?><{root}>{named}{rest}</{root}>'.encode()


def _listing(objects: dict[str, bytes], bucket: str, prefix: str) -> bytes:
    keys = {name.removeprefix(f"{bucket}/"): content for name, content in objects.items() if name.startswith(bucket)}
    entries = "".join(
        f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size><ETag>&quot;x&quot;</ETag>"
        "<LastModified>2026-11-30T00:00:00.000Z</LastModified><StorageClass>STANDARD</StorageClass></Contents>"
        for key, content in sorted(keys.items())
        if key.startswith(prefix)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{escape(bucket)}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(keys)}</KeyCount>"
        f"<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
    ).encode()
