"""Wrong requests get a status that fits, and never stop the server."""

import threading

import pytest
from starlette.testclient import TestClient

from plugformer_serving.application import application

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        (b"", 400, "Invalid JSON"),
        (b"\xff\xfe", 400, "Invalid JSON"),
        (b'{"inputs": null}', 400, "inputs: Field required"),
        (b'{"inputs": ["a", 3]}', 400, "inputs: expected a text or an object of columns, found 3"),
        (b'{"inputs": {}}', 400, "inputs: expected a text or an object of columns, found {}"),
        (b'{"inputs": "a", "n_best": 9}', 400, "only 3 labels"),
        (b'{"inputs": "a", "nbest": 1}', 400, "nbest: "),
        (b'{"inputs": "' + b"a" * 9000 + b'"}', 413, "larger than 8,000 bytes"),
        (b'{"inputs": [' + b",".join([b'"a"'] * 9) + b"]}", 413, "9 items; send 8"),
        (b'{"inputs": "' + b"rain " * 200 + b'"}', 413, "tokens; send 100"),
    ],
)
def test_a_wrong_body_is_refused_with_the_reason(served, content, status, reason):
    server = served("classes", body=8000, items=8, tokens=100)
    response = server.client.post("/predict", content=content, headers=JSON)
    assert (response.status_code, reason in response.json()["error"]) == (status, True), response.text


def test_numbers_that_json_lacks_are_null_in_the_answer(served):
    content = b'{"inputs": {"text": 1e999}}'
    response = served("classes").client.post("/predict", content=content, headers=JSON)
    (found,) = response.json()
    assert (response.status_code, found["input"]) == (200, {"text": None})
    assert "expected text" in found["error"]


def test_other_paths_methods_and_content_types(served):
    client = served("classes").client
    assert client.get("/nowhere").status_code == 404
    assert client.post("/predict/", json={}).status_code == 404
    response = client.get("/predict")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert client.options("/predict").status_code == 405
    assert client.post("/predict", content=b"{}").status_code == 415
    assert client.post("/predict", data={"inputs": "a"}).status_code == 415
    assert client.post("/predict", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:8000"}, 200),
        ({"host": "localhost:8000"}, 200),
        ({"host": "[::1]:8000"}, 200),
        (
            {"host": "localhost:8000", "sec-fetch-site": "cross-site"},
            200,
        ),  # an image; the page cannot read it
        ({"host": "evil.example"}, 400),
        ({"host": "127.0.0.1.evil.example"}, 400),
        ({"host": "localhost:8000", "origin": "http://localhost:8000"}, 200),
        ({"host": "localhost:8000", "origin": "http://evil.example"}, 403),
        ({"host": "localhost:8000", "origin": "null"}, 403),
        ({"host": "127.0.0.1:8123", "origin": "http://127.0.0.1:8123.evil.example"}, 403),
    ],
)
def test_only_this_machine_and_pages_of_the_server_are_answered(served, headers, status):
    response = served("classes").client.get("/health", headers=headers)
    assert response.status_code == status
    assert not [name for name in response.headers if name.startswith("access-control")]
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert response.headers["cross-origin-resource-policy"] == "same-origin"


def test_a_name_behind_a_proxy_is_allowed(served):
    app = application(served("classes").service, ["models.example.org"])
    client = TestClient(app, "http://models.example.org")
    assert client.get("/health", headers={"origin": "https://models.example.org"}).status_code == 200
    for origin in ("https://models.example.org:8443", "https://models.example.org.evil.example"):
        assert client.get("/health", headers={"origin": origin}).status_code == 403
    assert client.get("/health", headers={"host": "127.0.0.1"}).status_code == 400


def test_a_full_queue_and_a_late_answer(served):
    server, held = served("classes", queue=3, seconds=1.5), threading.Event()
    assert server.post("/predict", inputs=["a"] * 4).status_code == 503
    assert server.post("/predict", inputs=["a"] * 4).headers["retry-after"] == "1"
    waiting = server.service.worker.call(lambda model: held.wait(60))
    assert server.post("/predict", inputs="a").status_code == 504
    held.set()
    waiting.result()
    assert server.post("/predict", inputs="a").status_code == 200
    assert 'path="/predict",status="504"} 1' in server.client.get("/metrics").text
    assert "plugformer_queue_texts 0" in server.client.get("/metrics").text


def test_an_error_of_the_server_is_no_end(served, monkeypatch):
    server = served("classes", items=7)
    monkeypatch.setattr(type(server.service.worker._model), "answer_requested", lambda *_: 1 / 0)
    assert server.post("/predict", inputs="a").status_code == 500
    monkeypatch.undo()
    assert server.post("/predict", inputs="a").status_code == 200


@pytest.mark.parametrize("name", ["classes", "continuation", "source"])
@pytest.mark.parametrize(
    ("path", "field"),
    [("/predict", "inputs"), ("/", "inputs"), ("/attention", "inputs"), ("/v1/completions", "prompt")],
)
def test_a_wrong_value_is_no_error_of_the_server(served, name, path, field):
    server = served(name)
    for value in (None, True, 0, "", [], [[]], {}, {"a": 1}, {"text": None}, ["a", None]):
        response = server.post(path, **{field: value})
        assert response.status_code in (200, 400, 404), (value, response.text)
