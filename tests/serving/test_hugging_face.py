"""The shapes of Hugging Face's inference API, by what a model answers; its own client reads them."""

import threading

import huggingface_hub
import pytest
import uvicorn
from huggingface_hub import InferenceClient
from tests.serving.conftest import TEXTS

from plugformer.interfaces import Prediction
from plugformer_serving.hugging_face import _filled
from plugformer_serving.server import address, bind


@pytest.fixture
def client(served, monkeypatch):
    """Returns Hugging Face's client of a server on this machine."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    running = []

    def start(name):
        listening = bind("127.0.0.1", 0)
        config = uvicorn.Config(served(name).app, log_config=None, lifespan="off", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        running.append((server, thread))
        return InferenceClient(address(listening))

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join()


def test_classes_with_their_probabilities(served, client):
    found = client("classes").text_classification("rain")
    assert {each.label for each in found} == {"bad", "good", "odd"}
    assert sum(each.score for each in found) == pytest.approx(1)
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert len(served("classes").post("/", inputs=TEXTS, parameters={"top_k": 2}).json()[3]) == 2


def test_labels_with_probabilities_of_their_own(served):
    ((first, second),) = served("labels").post("/", inputs="rain").json()
    assert {first["label"], second["label"]} == {"red", "wet"}
    assert first["score"] >= second["score"]


def test_a_number_is_the_score_of_its_column(served):
    pair = {"first": "rain", "second": "sea"}
    ((found,),) = served("number").post("/", inputs=pair).json()
    assert found["label"] == "number"
    assert found["score"] == pytest.approx(served("number").trained.predict(pair).output, abs=1e-4)


def test_parts_of_a_text_with_labels(served, client):
    text = "the  red house"
    tags = served("tags").trained.predict(text).output
    words = served("tags").post(
        "/", inputs=text, parameters={"aggregation_strategy": "none", "ignore_labels": []}
    )
    assert [each["entity"] for each in words.json()] == tags
    assert [text[each["start"] : each["end"]] for each in words.json()] == text.split()
    for span in client("tags").token_classification(text):
        assert span.word == text[span.start : span.end]
        assert 0 < span.score <= 1
    listed = served("tags").post("/", inputs={"words": ["the", "red", "house"]}).json()
    assert [each["score"] for each in listed] == pytest.approx(
        [each["score"] for each in served("tags").post("/", inputs="the red house").json()]
    )


@pytest.mark.parametrize("strategy", ["none", "simple"])
@pytest.mark.parametrize(
    ("inputs", "text"),
    [({"words": [1, "red", 23]}, "1 red 23"), ({"tags": ["O", "O"], "words": ["the", "red"]}, "the red")],
)
def test_words_by_column_are_read_as_by_predict(served, inputs, text, strategy):
    parameters = {"aggregation_strategy": strategy, "ignore_labels": []}
    found, expected = (
        served("tags").post("/", inputs=each, parameters=parameters).json() for each in (inputs, text)
    )
    scores = [[part.pop("score") for part in parts] for parts in (found, expected)]
    assert found == expected
    assert scores[0] == pytest.approx(scores[1])


def test_tags_without_probabilities_are_answered_as_by_predict(served, monkeypatch):
    """A head that scores whole outputs, such as a conditional random field, has none."""
    head = served("tags").trained.model.head
    monkeypatch.setattr(type(head), "depends_on", "example")
    (found,) = served("tags").post("/", inputs="the red house").json()
    assert found["output"] == served("tags").trained.predict("the red house").output


def test_a_masked_word_is_filled(client):
    (found,) = client("masks").fill_mask("the [MASK] house")
    assert found.sequence.startswith("the") and found.token_str in found.sequence


def test_a_mask_between_words_that_the_answer_writes_otherwise_is_found(served):
    answer = Prediction("the red <unk>", -1.0)
    filled = _filled(served("masks").service, {"text": "The [MASK] marmalade"}, answer)
    assert filled == {"sequence": answer.text, "token_str": "red", "score": answer.probability}


def test_an_answer_in_text(served, client):
    answer = served("source").trained.predict("rain").output
    assert client("source").translation("rain").translation_text == answer
    assert served("source").post("/", inputs=["rain", "sea"]).json()[0]["generated_text"] == answer
    several = served("source").post("/", inputs="rain", parameters={"num_return_sequences": 3}).json()
    assert len({each["generated_text"] for each in several}) == 3


def test_a_continuation_with_its_prompt_or_alone(served, client):
    server = served("continuation")
    alone = client("continuation").text_generation("rain", max_new_tokens=5, return_full_text=False)
    assert len(alone.replace("<unk>", "?")) <= 5
    (whole,) = server.post("/", inputs="rain", parameters={"max_new_tokens": 5}).json()
    assert whole["generated_text"] == f"rain{alone}"


@pytest.mark.parametrize("inputs", [{"wrong": "rain"}, {"text": "rain", "wrong": "sea"}, {"text": None}])
def test_a_prompt_by_column_is_checked_as_by_predict(served, inputs):
    server = served("continuation")
    (found,) = server.post("/predict", inputs=inputs).json()
    response = server.post("/", inputs=inputs)
    assert (response.status_code, response.json()) == (400, {"error": found["error"]})


@pytest.mark.parametrize(("value", "text"), [("rain", "rain"), (1234567, "1234567")])
def test_a_prompt_by_column_is_read_as_by_predict(served, value, text):
    server = served("continuation")
    asked = {"parameters": {"max_new_tokens": 12}}
    (found,) = server.post("/", inputs={"text": value}, **asked).json()
    assert found == server.post("/", inputs=text, **asked).json()[0]
    assert found["generated_text"] == text + server.trained.predict({"text": value}).output


def test_vectors_and_similarities(served, client):
    server = served("vectors")
    vector = server.trained.vectors(["rain"])[0].tolist()
    assert client("vectors").feature_extraction("rain").tolist() == pytest.approx(vector, abs=1e-5)
    similar = client("vectors").sentence_similarity("rain", other_sentences=["rain", "the red house"])
    assert similar[0] == pytest.approx(1, abs=1e-4) and similar[1] < similar[0]


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("classes", {"inputs": "rain", "parameters": {"top": 1}}, "parameters.top: "),
        ("classes", {"inputs": {"source_sentence": "a", "sentences": ["b"]}}, "compares no sentences"),
        ("source", {"inputs": ["rain", "x" * 99]}, "inputs[1]: "),
        ("source", {"inputs": "rain", "parameters": {"stop": ["a"]}}, "parameters.stop: "),
        ("source", {"inputs": "rain", "parameters": {"return_full_text": False}}, "return_full_text: "),
        ("vectors", {"inputs": {"first": "rain"}}, "vectors are those of texts"),
        ("continuation", {"inputs": "rain", "parameters": {"details": True}}, "details"),
    ],
)
def test_what_has_no_place_in_a_shape_is_refused(served, name, body, reason):
    response = served(name).post("/", **body)
    assert response.status_code == 400
    assert reason in response.json()["error"]
