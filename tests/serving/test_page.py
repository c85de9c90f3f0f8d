"""The page: sound files, nothing from elsewhere, and data that it builds its form from."""

import re
import shutil
import subprocess
from importlib.resources import files

import pytest

PAGE = files("plugformer_serving") / "page"


def test_the_files_fit_each_other_and_need_nothing_from_elsewhere(served):
    page, script, style = ((PAGE / f"page.{kind}").read_text() for kind in ("html", "js", "css"))
    assert not re.search(r"\s(on\w+|style)=", page)  # the browser is told to ignore them
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert set(re.findall(r'byId\("([a-z_-]+)"\)', script)) - {"column-candidates", "see"} <= set(ids)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", script + style)
    client = served("classes").client
    for address in {"./", *re.findall(r'(?:src|href)="([^"]+)"', page)} - {"data:,"}:
        response = client.get(f"/{address.removeprefix('./')}")
        assert response.status_code == 200
        assert response.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_the_script_is_javascript():
    subprocess.run([shutil.which("node"), "--check", str(PAGE / "page.js")], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("name", "columns", "facts"),
    [
        ("classes", [("text", "string")], {"classes": ["bad", "good", "odd"], "probabilities": True}),
        ("number", [("first", "string"), ("second", "string")], {"alternatives": False, "attention": True}),
        ("tags", [("words", "array")], {"probabilities": True}),
        ("continuation", [("text", "string")], {"continues": True, "alternatives": True}),
        ("vectors", [("first", "string")], {"finds": True, "attention": False}),
    ],
)
def test_the_form_is_built_from_the_columns(served, name, columns, facts):
    found = served(name).client.get("/about").json()
    assert [(each["name"], each["type"]) for each in found["columns"]] == columns
    assert found.items() >= facts.items()


def test_every_path_is_described(served):
    server = served("continuation")
    described = server.client.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    for path, methods in described["paths"].items():
        for method in methods:
            assert server.client.request(method, path).status_code != 404
    elsewhere = {"403"}  # of a page of another origin, at every path
    asked = elsewhere | {"400", "408", "413", "415", "500", "503", "504"}
    assert {
        path: methods.popitem()[1]["responses"].keys() - {"200"}
        for path, methods in described["paths"].items()
    } == {
        **dict.fromkeys(["/", "/predict", "/attention"], asked),
        "/v1/completions": asked | {"404"},
        **dict.fromkeys(["/health", "/metrics", "/v1/models"], elsewhere),
    }
    schemas = served("number").client.get("/openapi.json").json()["components"]["schemas"]
    _, columns = schemas["AttentionRequest"]["properties"]["inputs"]["anyOf"]
    assert columns["properties"].keys() == {"first", "second"}
    assert schemas["PredictRequest"]["properties"]["n_best"]["maximum"] == 100
