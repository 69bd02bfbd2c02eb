#!/usr/bin/env python3
"""An HTTP server on 127.0.0.1 that behaves as well or badly as its URLs say. Used by src/model/fetch_url_test.cc.

    http_standin.py FOLDER LOG    prints its port; serves FOLDER; writes one line to LOG for each request

    /range/F        whole file, or the part a Range asks for if If-Range names the current ETag
    /dated/F        the same with Last-Modified instead of ETag
    /plain/F        knows neither ranges nor validators
    /cut/N/F        as /range, but the first answer breaks off after N bytes
    /changed/N/F    as /cut, and then the file is another one (upper case)
    /redirect/F     leads to /range/F
    /status/N       answers N
"""

import http.server
import pathlib
import sys

FOLDER, LOG = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
SEEN: set[str] = set()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_args) -> None:
        pass

    def log_request(self, *_args) -> None:
        with LOG.open("a") as log:
            log.write(f"{self.path} {self.headers.get('Range', '-')}\n")

    def do_GET(self) -> None:
        kind, *rest = self.path.split("?")[0].strip("/").split("/")
        again = self.path in SEEN
        SEEN.add(self.path)
        if kind == "status":
            self.send_error(int(rest[0]))
            return
        if kind == "redirect":
            self.send_response(302)
            self.send_header("Location", f"/range/{rest[0]}")
            self.end_headers()
            return
        body = (FOLDER / rest[-1]).read_bytes()
        validator = f'"{rest[-1]}"'
        if kind == "changed" and again:
            body, validator = body.upper(), '"other"'
        if kind == "dated":
            validator = "Mon, 01 Jan 2024 00:00:00 GMT"
        limit = int(rest[0]) if kind in ("cut", "changed") and not again else None
        self.send_file(body, None if kind == "plain" else validator, limit)

    def send_file(self, body: bytes, validator: str | None, limit: int | None) -> None:
        begin = 0
        wanted = self.headers.get("Range")
        if wanted and validator and self.headers.get("If-Range") == validator:
            begin = int(wanted.removeprefix("bytes=").rstrip("-"))
            if begin >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if validator:
            self.send_header("ETag" if validator.startswith('"') else "Last-Modified", validator)
        self.send_header("Content-Length", str(len(body) - begin))
        self.end_headers()
        self.wfile.write(body[begin : begin + limit if limit is not None else None])
        self.close_connection = True


def main() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
