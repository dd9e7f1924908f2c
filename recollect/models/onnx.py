"""Sentence vectors from any ONNX model in a folder, on the processor.

The folder is laid out as model hubs publish it: a graph, `tokenizer.json`, and where there are any, `config.json` and
the files of sentence-transformers that name the pooling and the prompts. The padding and truncation in
`tokenizer.json` belong to whoever exported it (gte-small: both at 128 tokens) and are not used.

Some graphs measure the range of their activations as they run, over everything in a batch. The vector of a text would
then depend on its neighbours, so such a graph gets one text at a time; without padding that costs no more.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.errors import InvalidInput, RecollectError
from recollect.language.text import storable, truncate

GRAPHS = ("onnx/model_quantized.onnx", "model_quantized.onnx", "onnx/model.onnx", "model.onnx")
OUTPUTS = ("sentence_embedding", "last_hidden_state", "token_embeddings")
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
POOLINGS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "mean": "mean",
    "cls": "cls",
}
INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
# These number the positions from the one after the padding token's, so that many fewer can be used.
OFFSET_POSITIONS = {"roberta", "xlm-roberta", "camembert", "mpnet"}
USUAL_TOKENS = 512
LONGEST_TOKENS = 2_048  # memory grows with the square: about 200 MB here, 3 GB at the 8,192 that some models allow
LONGEST_TOKEN = (
    64  # characters; what lies past this many a token need not be tokenised to be cut off
)
BATCH_TOKENS = 1_024  # larger batches are no faster on a processor
SORTED_TEXTS = 256


class OnnxModel:
    """A model in a folder. Safe to use from several threads."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        """Read the model and try it once. `threads` 0 is half of the processors.

        Raises InvalidInput, naming the file, when the folder holds no model that can be used.
        """
        self._folder = folder.expanduser().absolute()
        self._graph = _graph(self._folder)
        runtime, tokenizers = _packages()
        config = _described(self._folder / "config.json")
        prompts = (
            _described(self._folder / "config_sentence_transformers.json").get("prompts") or {}
        )
        self._query_prompt = str(prompts.get("query") or "")
        self._prompt = str(prompts.get("document") or prompts.get("passage") or "")
        self._limit = _limit(config)
        self._tokenizer = _tokenizer(tokenizers, self._folder / "tokenizer.json", self._limit)
        self._pad = (self._tokenizer.padding or {}).get("pad_id") or config.get("pad_token_id") or 0
        self._tokenizer.no_padding()
        self._session = _session(
            runtime, self._graph, threads or max(1, (os.cpu_count() or 1) // 2)
        )
        self._inputs = _inputs(self._session, self._graph)
        self._output = _output(self._session)
        pooled = self._output == "sentence_embedding"
        self._pooling = "" if pooled else _pooling(self._folder / "1_Pooling" / "config.json")
        self._alone = _scales_by_batch(self._graph)
        self.name = self._folder.name
        self.version = self._version()
        self.dimensions = self._vectors([self._tokens("a") or [self._pad]]).shape[1]

    def __repr__(self) -> str:
        return f"OnnxModel({str(self._folder)!r})"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of unit length for each text; zero where there is no word in it."""
        return self._embed(texts, self._prompt)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a question, with what the model wants before one."""
        row: NDArray[np.float32] = self._embed([text], self._query_prompt)[0]
        return row

    def _embed(self, texts: Sequence[str], prompt: str) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for start in range(0, len(texts), SORTED_TEXTS):
            part = texts[start : start + SORTED_TEXTS]
            tokens = {
                row: self._tokens(prompt + text)
                for row, text in enumerate(part, start)
                if text.strip()
            }
            for rows in self._batches({row: len(ids) for row, ids in tokens.items() if ids}):
                vectors[rows] = self._vectors([tokens[row] for row in rows])
        return vectors

    def _tokens(self, text: str) -> list[int]:
        """At most as many tokens as the model takes; none where the text holds none of its own."""
        found = self._tokenizer.encode(storable(text[: self._limit * LONGEST_TOKEN]))
        return [] if all(found.special_tokens_mask) else list(found.ids)

    def _batches(self, lengths: dict[int, int]) -> Iterator[list[int]]:
        """Rows that run together: of like length, so that little is padding, and few enough."""
        batch: list[int] = []
        for row in sorted(lengths, key=lengths.__getitem__):
            if batch and (self._alone or (len(batch) + 1) * lengths[row] > BATCH_TOKENS):
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _vectors(self, tokens: Sequence[list[int]]) -> NDArray[np.float32]:
        ids = np.full((len(tokens), max(map(len, tokens))), self._pad, dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, found in enumerate(tokens):
            ids[row, : len(found)] = found
            mask[row, : len(found)] = 1
        given = dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))
        try:
            (states,) = self._session.run(
                [self._output],
                {name: given[name].astype(kind) for name, kind in self._inputs.items()},
            )
        except Exception as error:  # the runtime's own exceptions share no other base
            raise InvalidInput(
                f"{self._graph} could not be run as a text model: {_brief(error)}."
            ) from error
        return self._unit(self._pooled(np.asarray(states, dtype=np.float32), mask))

    def _pooled(self, states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        if states.ndim == 2 and len(states) == len(mask):
            return states
        if states.shape[:2] != mask.shape or states.ndim != 3:
            raise InvalidInput(
                f"{self._graph}: its output {self._output} is neither token states nor vectors of texts."
            )
        if self._pooling == "cls":
            return states[:, 0]
        weights = mask.astype(np.float32)
        mean: NDArray[np.float32] = np.matmul(weights[:, None, :], states)[:, 0] / weights.sum(
            axis=1, keepdims=True
        )
        return mean

    def _unit(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            raise InvalidInput(
                f"{self._graph} answered with numbers that are not finite; the file may be damaged."
            )
        unit: NDArray[np.float32] = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
        return unit

    def _version(self) -> str:
        """Of everything a vector depends on: the graph with its outside data, the words, how they are put together."""
        parts = [
            *sorted(self._graph.parent.glob(f"{self._graph.name}*")),
            self._folder / "tokenizer.json",
        ]
        whole = hashlib.sha256()
        for path in parts:
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        whole.update(
            repr(
                (self._output, self._pooling, self._limit, self._prompt, self._query_prompt)
            ).encode()
        )
        return whole.hexdigest()


def _packages() -> tuple[Any, Any]:
    try:
        import onnxruntime  # type: ignore[import-untyped]
        import tokenizers
    except ImportError as error:
        raise RecollectError(
            "ONNX models need more packages: pip install 'recollect[onnx]'."
        ) from error
    return onnxruntime, tokenizers


def _graph(folder: Path) -> Path:
    if not folder.is_dir():
        raise InvalidInput(
            f"{folder} is not a folder; RECOLLECT_EMBEDDINGS may name one that holds an ONNX model."
        )
    for name in GRAPHS:
        if (folder / name).is_file():
            return folder / name
    raise InvalidInput(
        f"{folder} holds no ONNX model; one of these is expected: {', '.join(GRAPHS)}."
    )


def _described(path: Path) -> dict[str, Any]:
    """A JSON file that may be absent."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} could not be read as JSON: {_brief(error)}.") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} does not hold a JSON object.")
    return value


def _pooling(path: Path) -> str:
    """How token states become one vector: by their mean, unless the file says by the first of them."""
    described = _described(path)
    modes = [
        key
        for key, chosen in described.items()
        if key.startswith("pooling_mode_") and chosen is True
    ]
    modes = modes or [str(described.get("pooling_mode") or "mean")]
    if len(modes) > 1 or modes[0] not in POOLINGS:
        raise InvalidInput(
            f"{path} asks for {', '.join(modes)}; Recollect can pool by the mean or by the first token."
        )
    return POOLINGS[modes[0]]


def _limit(config: dict[str, Any]) -> int:
    """How many tokens the model takes."""
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int) or positions < 8:
        return USUAL_TOKENS
    if config.get("model_type") in OFFSET_POSITIONS:
        positions -= int(config.get("pad_token_id") or 0) + 1
    return min(positions, LONGEST_TOKENS)


def _tokenizer(tokenizers: Any, path: Path, limit: int) -> Any:
    if not path.is_file():
        raise InvalidInput(
            f"{path} is missing; an ONNX model needs the tokenizer it was made with."
        )
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises nothing narrower
        raise InvalidInput(f"{path} could not be read as a tokenizer: {_brief(error)}.") from error
    tokenizer.enable_truncation(limit)
    return tokenizer


def _session(runtime: Any, graph: Path, threads: int) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Texts differ in length: memory kept for each shape is memory lost. Nor may idle threads keep processors busy.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return runtime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's own exceptions share no other base
        raise InvalidInput(
            f"{graph} could not be read as an ONNX model: {_brief(error)}."
        ) from error


def _inputs(session: Any, graph: Path) -> dict[str, Any]:
    """The inputs the graph wants, each with its type of integer."""
    wanted = {given.name: INTEGERS.get(given.type) for given in session.get_inputs()}
    if "input_ids" not in wanted or not wanted.keys() <= set(INPUTS) or None in wanted.values():
        described = ", ".join(f"{given.name} {given.type}" for given in session.get_inputs())
        raise InvalidInput(
            f"{graph} is not a text model: it takes {described}; expected are {', '.join(INPUTS)}."
        )
    return wanted


def _output(session: Any) -> str:
    names = [output.name for output in session.get_outputs()]
    return next((name for name in OUTPUTS if name in names), names[0])


def _scales_by_batch(graph: Path) -> bool:
    """Whether the graph quantises its activations as it runs; the names of operators stand plainly in the file."""
    with graph.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(b"DynamicQuantize") >= 0


def _brief(error: Exception) -> str:
    return truncate(" ".join(str(error).split()), 300).rstrip(".")
