"""Wrong requests get a status that fits, and never stop the server."""

import json
import random
import time

import pytest
from starlette.testclient import TestClient

from plugformer_serving.application import application

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        (b"", 400, "Invalid JSON"),
        (b"\xff\xfe", 400, "Invalid JSON"),
        (b"[" * 2_000, 400, "Invalid JSON: recursion limit"),
        (b'{"inputs": ' + b"9" * 4500 + b"}", 400, "Invalid JSON: number out of range"),
        (b'{"inputs": "\\ud800"}', 400, "Invalid JSON"),
        (b"[]", 400, "should be an object"),
        (b'{"inputs": null}', 400, "inputs: Field required"),
        (b'{"inputs": NaN}', 400, "inputs: expected a text or an object of columns, found nan"),
        (b'{"inputs": ["a", 3]}', 400, "inputs: expected a text or an object of columns, found 3"),
        (b'{"inputs": {}}', 400, "inputs: expected a text or an object of columns, found {}"),
        (b'{"inputs": "a", "n_best": true}', 400, "n_best: "),
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
        ({"host": "[::1"}, 400),
        ({"host": "localhost:8000", "origin": "http://localhost:8000"}, 200),
        ({"host": "localhost:8000", "origin": "http://evil.example"}, 403),
        ({"host": "localhost:8000", "origin": "null"}, 403),
        ({"host": "localhost:8000", "origin": "http://localhost:9999"}, 403),
        ({"host": "localhost:8000", "origin": "https://localhost"}, 403),
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
    server = served("classes", queue=3, seconds=0.3)
    assert server.post("/predict", inputs=["a"] * 4).status_code == 503
    assert server.post("/predict", inputs=["a"] * 4).headers["retry-after"] == "1"
    sleeping = server.service.worker.call(lambda model: time.sleep(1))
    assert server.post("/predict", inputs="a").status_code == 504
    sleeping.result()
    assert server.post("/predict", inputs="a").status_code == 200
    assert 'path="/predict",status="504"} 1' in server.client.get("/metrics").text
    assert "plugformer_queue_texts 0" in server.client.get("/metrics").text


def test_an_error_of_the_server_is_no_end(served, monkeypatch):
    server = served("classes", items=7)
    monkeypatch.setattr(type(server.service.worker._model), "answer_requested", lambda *_: 1 / 0)
    assert server.post("/predict", inputs="a").status_code == 500
    monkeypatch.undo()
    assert server.post("/predict", inputs="a").status_code == 200


WRONG = [
    None,
    True,
    -1,
    0,
    10**30,
    1e308,
    "",
    "a",
    "\ud800",
    [],
    [[]],
    {},
    {"a": 1},
    {"text": None},
    ["a", None],
]


def malformed(draw):
    """Returns method, path, content and headers of a request that is probably wrong."""
    path = draw.choice(
        ["/predict", "/", "/attention", "/v1/completions", "/about", "/health", "/x%00y", "/%ff"]
    )
    names = [
        "inputs",
        "n_best",
        "probabilities",
        "parameters",
        "prompt",
        "n",
        "max_tokens",
        "stop",
        "temperature",
    ]
    content = draw.choice(
        [
            lambda: draw.randbytes(draw.randrange(60)),
            lambda: json.dumps({name: draw.choice(WRONG) for name in draw.sample(names, 3)}).encode(),
            lambda: json.dumps({"inputs": draw.choice(WRONG), "n_best": draw.choice(WRONG)}).encode(),
            lambda: json.dumps({"inputs": "rain", "prompt": "a"}).encode()[: draw.randrange(30)],
            lambda: b'{"inputs": ' * draw.randrange(2000),
            lambda: b'{"inputs": %s}' % (b"1" * draw.randrange(9000)),
        ]
    )()
    method = draw.choice(["POST"] * 8 + ["GET", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "TRACE", "BREW"])
    headers = draw.choice([JSON] * 6 + [{}, {"content-type": "text/html"}, {"content-type": "\x01;;"}])
    return method, path, content, headers


@pytest.mark.parametrize("name", ["classes", "continuation", "source"])
def test_malformed_requests_get_a_status_of_their_own(served, name):
    server, draw, statuses = served(name), random.Random(f"malformed {name}"), set()  # noqa: S311 (not for secrets)
    for _ in range(250):
        method, path, content, headers = malformed(draw)
        response = server.client.request(method, path, content=content, headers=headers)
        assert response.status_code in (200, 400, 404, 405, 413, 415), (method, path, content, response.text)
        assert response.status_code != 200 or method != "POST" or json.loads(content)
        statuses.add(response.status_code)
    assert statuses >= {200, 400, 404, 405, 415}
    assert server.post("/predict", inputs="rain").status_code == 200
