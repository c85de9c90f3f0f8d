"""Answers over HTTP equal those of `predict`."""

import pytest
from tests.serving.conftest import TASKS, TEXTS

from plugformer_cli import record


def records(trained, questions, **options):
    return [record(*pair) for pair in zip(questions, trained.predict_each(questions, **options), strict=True)]


def same(found, expected):
    """Compares records; batches change numbers a little."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            same(found[name], value)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-4)
    else:
        assert found == expected


def questions(name):
    columns = TASKS[name][1][0]
    if name == "number":
        return [{"first": text, "second": "rain"} for text in TEXTS]
    return ["the [MASK] house", "rain"] if name == "masks" else TEXTS if columns else []


@pytest.mark.parametrize("name", ["classes", "labels", "number", "tags", "masks", "continuation", "source"])
def test_answers_are_those_of_predict_in_order(served, name):
    server, asked = served(name), questions(name)
    response = server.post("/predict", inputs=asked)
    assert response.status_code == 200
    same(response.json(), records(server.trained, asked))


def test_one_text_gets_a_list_of_one(served):
    server = served("classes")
    same(server.post("/predict", inputs=TEXTS[0]).json(), records(server.trained, TEXTS[:1]))
    same(server.post("/predict", inputs={"text": "rain"}).json(), records(server.trained, [{"text": "rain"}]))
    assert server.post("/predict", inputs=[]).json() == []


def test_alternatives_and_probabilities_are_asked_for(served):
    server = served("classes")
    found = server.post("/predict", inputs=TEXTS, n_best=3, probabilities=True).json()
    same(found, records(server.trained, TEXTS, n_best=3, probabilities=True))
    assert [len(each["alternatives"]) for each in found] == [2] * 4


def test_a_text_without_an_answer_has_an_error_in_its_place(served):
    server, asked = served("source"), ["rain", "x" * 99, {"wrong": "rain"}, "sea"]
    found = server.post("/predict", inputs=asked).json()
    assert [bool(each.get("error")) for each in found] == [False, True, True, False]
    same(found, records(server.trained, asked))


def test_requests_at_once_share_batches_and_get_their_own_answers(served):
    """Random choices count from 0 in each request."""
    server = served("continuation")
    asked = [[text[:place], text] for place in range(1, 5) for text in TEXTS]
    batches = server.client.get("/metrics").text
    found = server.post_at_once("/predict", [{"inputs": texts} for texts in asked])
    for response, texts in zip(found, asked, strict=True):
        same(response.json(), records(server.trained, texts))
    before, after = (
        float(text.split("plugformer_batch_texts_count ")[1].split()[0])
        for text in (batches, server.client.get("/metrics").text)
    )
    assert after - before < len(asked)


def test_a_wrong_request_leaves_those_beside_it_alone(served):
    server = served("source")
    bodies = [{"inputs": "rain", "n_best": 50}] * 4 + [{"inputs": text} for text in TEXTS]
    responses = server.post_at_once("/predict", bodies)
    assert {each.status_code for each in responses[:4]} == {400}
    assert "50 outputs are asked for" in responses[0].json()["error"]
    for text, response in zip(TEXTS, responses[4:], strict=True):
        same(response.json(), records(server.trained, [text]))


def test_optional_columns_do_not_mix(served):
    """A text that lacks a column is not answered as if the column were empty."""
    server = served("continuation")
    asked = ["rain", {"text": "rain"}]
    same(server.post("/predict", inputs=asked).json(), records(server.trained, asked))


def test_attention_is_that_of_one_text(served):
    found = served("source").post("/attention", inputs="rain").json()
    assert {each["name"] for each in found["maps"]} >= {"decoder cross-attention, layer 0"}
    cross = next(each for each in found["maps"] if "cross" in each["name"])
    assert cross["key"] == [*"rain", "<end>"]
    for head in cross["weights"]:
        for row in head:
            assert sum(row) == pytest.approx(1, abs=0.01)
    assert served("source").post("/attention", inputs=["a", "b"]).status_code == 400
