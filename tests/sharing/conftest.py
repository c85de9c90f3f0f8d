"""The Hub's endpoints on the loopback, as far as huggingface_hub asks for them here."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import huggingface_hub
import pytest

from plugformer_cli.main import main

TOKEN = "hf_" + "a" * 34


class FakeHub(ThreadingHTTPServer):
    """Repositories in memory: files by name, and whether only the owner of TOKEN sees them."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.private, self.served = {}, {}, []

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def commit_of(self, name):
        return hashlib.sha1(repr(sorted(self.files[name].items())).encode()).hexdigest()  # noqa: S324


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, value=b"", status=200, **headers):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for key, text in {"Content-Length": len(body), **headers}.items():
            self.send_header(key.replace("_", "-"), str(text))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        self.answer({"error": code}, status, X_Error_Code=code, X_Error_Message=code)

    @property
    def allowed(self):
        return self.headers["Authorization"] == f"Bearer {TOKEN}"

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        path, hub = urlsplit(self.path).path, self.server
        if not self.allowed:
            self.refuse(401, "Unauthorized")
        elif path == "/api/repos/create":
            asked = json.loads(content)
            name = "/".join(filter(None, (asked.get("organization", "me"), asked["name"])))
            hub.files.setdefault(name, {})
            hub.private.setdefault(name, asked.get("visibility") == "private" or asked.get("private", False))
            self.answer({"url": f"{hub.address}/{name}", "name": name, "id": name})
        elif path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            files = json.loads(content)["files"]
            modes = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]
            self.answer({"files": modes})
        else:
            name = path.removeprefix("/api/models/").partition("/commit/")[0]
            for line in map(json.loads, content.splitlines()):
                if line["key"] == "file":
                    hub.files[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            commit = hub.commit_of(name)
            self.answer(
                {"success": True, "commitOid": commit, "commitUrl": f"{hub.address}/{name}/commit/{commit}"}
            )

    def do_GET(self):
        path, hub = unquote(urlsplit(self.path).path), self.server
        name = "/".join(path.removeprefix("/api/models").strip("/").split("/")[:2])
        if name not in hub.files or (hub.private[name] and not self.allowed):
            self.refuse(401, "RepoNotFound")
            return
        files, commit = hub.files[name], hub.commit_of(name)
        rest = path.partition(f"{name}/")[2]
        revision = rest.split("/")[1] if "/" in rest else "main"
        if revision not in ("main", commit):
            self.refuse(404, "RevisionNotFound")
        elif rest.startswith("tree/"):
            self.answer(
                [{"type": "file", "path": f, "size": len(c), "oid": oid(c)} for f, c in files.items()]
            )
        elif rest.startswith("resolve/"):
            file = rest.split("/", 2)[2]
            hub.served.append(file)
            self.answer(files[file], ETag=f'"{oid(files[file])}"', X_Repo_Commit=commit)
        else:
            self.answer(
                {"id": name, "modelId": name, "sha": commit, "siblings": [{"rfilename": f} for f in files]}
            )

    do_HEAD = do_GET  # noqa: N815


def oid(content):
    return hashlib.sha1(content).hexdigest()  # noqa: S324 (as Git names files)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """An empty Hub, and an empty cache; nobody is logged in."""
    server = FakeHub()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # as it is where a user pushes
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    for variable in (
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(variable, raising=False)
    huggingface_hub.close_session()
    yield server
    server.shutdown()
    server.server_close()
    huggingface_hub.close_session()


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """Runs `plugformer` with these arguments; returns status, standard output and standard error."""
    monkeypatch.setenv("PLUGFORMER_PLUGINS", "")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        captured = capsys.readouterr()
        return left.value.code, captured.out, captured.err

    return run
