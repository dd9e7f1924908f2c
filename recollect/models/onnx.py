"""Sentence vectors from an ONNX model in a folder, computed on the CPU.

The folder has the layout of model hubs: a graph, `tokenizer.json`, and optionally `config.json` and
the files of sentence-transformers for pooling and prompts. The padding and truncation of
`tokenizer.json` depend on whoever exported the model (128 tokens for gte-small), so they are not
used.

Some graphs scale their activations by the range of a whole batch while they run. The vector of a
text would then depend on the other texts of the batch, so such graphs run one text at a time,
which is no slower because it needs no padding.
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

from recollect.configuration import expand_path
from recollect.errors import InvalidInput, RecollectError
from recollect.language.text import storable, truncate
from recollect.models.stopping import Stop, never_stop, require_running

GRAPHS = ("onnx/model_quantized.onnx", "model_quantized.onnx", "onnx/model.onnx", "model.onnx")
OUTPUTS = ("sentence_embedding", "last_hidden_state", "token_embeddings")
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
POOLINGS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",  # nosec B105 - a token of text
    "mean": "mean",
    "cls": "cls",
}
INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
# These models start to number positions after the padding token, so they have fewer of them.
OFFSET_POSITIONS = {"roberta", "xlm-roberta", "camembert", "mpnet"}
DEFAULT_TOKENS = 512
# Memory grows with the square of the tokens: about 200 MB here, 3 GB with the 8,192 tokens that
# some models allow.
MOST_TOKENS = 2_048
LONGEST_TOKEN = 64  # characters; longer texts are cut before tokenizing
BATCH_TOKENS = 1_024  # larger batches are not faster on a CPU
SORTED_TEXTS = 256  # texts sorted by length at a time


class OnnxModel:
    """A model in a folder. Safe to use from several threads."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        """Load the model and run it once. With `threads` 0, half of the processors are used.

        Raises InvalidInput, naming the file, if the folder does not contain a usable model.
        """
        self._folder = expand_path(folder).absolute()
        self._graph = find_graph(self._folder)
        runtime, tokenizers = packages()
        config = read_json(self._folder / "config.json")
        sentence_config = read_json(self._folder / "config_sentence_transformers.json")
        prompts = sentence_config.get("prompts") or {}
        self._query_prompt = str(prompts.get("query") or "")
        self._prompt = str(prompts.get("document") or prompts.get("passage") or "")
        self._limit = token_limit(config)
        self._tokenizer = _tokenizer(tokenizers, self._folder / "tokenizer.json", self._limit)
        padding = self._tokenizer.padding or {}
        self._pad = padding.get("pad_id") or config.get("pad_token_id") or 0
        self._tokenizer.no_padding()
        threads = threads or max(1, (os.cpu_count() or 1) // 2)
        self._session = _session(runtime, self._graph, threads)
        self._inputs = _inputs(self._session, self._graph)
        names = [output.name for output in self._session.get_outputs()]
        self._output: str = next((name for name in OUTPUTS if name in names), names[0])
        self._pooling = ""
        if self._output != "sentence_embedding":
            self._pooling = pooling(self._folder / "1_Pooling" / "config.json")
        self._runs_alone = scales_by_batch(self._graph)
        self.name = self._folder.name
        self.version = self._version()
        self.dimensions = self._run([self._tokens("a") or [self._pad]]).shape[1]

    def embed(self, texts: Sequence[str], stop: Stop = never_stop) -> NDArray[np.float32]:
        """One unit vector per text, as rows. Texts without words are zero."""
        return self._embed(texts, self._prompt, stop)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a query, with the prompt that the model expects before queries."""
        row: NDArray[np.float32] = self._embed([text], self._query_prompt)[0]
        return row

    def _embed(
        self, texts: Sequence[str], prompt: str, stop: Stop = never_stop
    ) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for start in range(0, len(texts), SORTED_TEXTS):
            tokens: dict[int, list[int]] = {}
            for row, text in enumerate(texts[start : start + SORTED_TEXTS], start):
                if text.strip():
                    tokens[row] = self._tokens(prompt + text)
            lengths = {row: len(ids) for row, ids in tokens.items() if ids}
            for rows in self._batches(lengths):
                require_running(stop)
                vectors[rows] = self._run([tokens[row] for row in rows])
        return vectors

    def _tokens(self, text: str) -> list[int]:
        """The tokens of a text, as many as the model takes; empty if all of them are special."""
        encoding = self._tokenizer.encode(storable(text[: self._limit * LONGEST_TOKEN]))
        if all(encoding.special_tokens_mask):
            return []
        return list(encoding.ids)

    def _batches(self, lengths: dict[int, int]) -> Iterator[list[int]]:
        """Rows to run together: of similar length, to avoid padding, and not too many."""
        batch: list[int] = []
        for row in sorted(lengths, key=lengths.__getitem__):
            if batch and (self._runs_alone or (len(batch) + 1) * lengths[row] > BATCH_TOKENS):
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _run(self, tokens: Sequence[list[int]]) -> NDArray[np.float32]:
        """The unit vectors of one batch."""
        ids = np.full((len(tokens), max(map(len, tokens))), self._pad, dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, row_ids in enumerate(tokens):
            ids[row, : len(row_ids)] = row_ids
            mask[row, : len(row_ids)] = 1
        arrays = dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))
        inputs = {name: arrays[name].astype(dtype) for name, dtype in self._inputs.items()}
        try:
            (states,) = self._session.run([self._output], inputs)
        except Exception as error:  # the exceptions of the runtime have no other base class
            raise InvalidInput(
                f"{self._graph} could not be run as a text model: {brief(error)}."
            ) from error
        return self._normalize(self._pool(np.asarray(states, dtype=np.float32), mask))

    def _pool(self, states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        """One vector per text, from the states of its tokens."""
        if states.ndim == 2 and len(states) == len(mask):
            return states
        if states.shape[:2] != mask.shape or states.ndim != 3:
            raise InvalidInput(
                f"{self._graph}: its output {self._output} is neither token states nor vectors of "
                "texts."
            )
        if self._pooling == "cls":
            return states[:, 0]
        weights = mask.astype(np.float32)
        sums = np.matmul(weights[:, None, :], states)[:, 0]
        mean: NDArray[np.float32] = sums / weights.sum(axis=1, keepdims=True)
        return mean

    def _normalize(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            raise InvalidInput(
                f"{self._graph} returned numbers that are not finite. The file may be damaged."
            )
        units: NDArray[np.float32] = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
        return units

    def _version(self) -> str:
        """A hash of everything that vectors depend on: the graph, the tokenizer and the options."""
        files = sorted(self._graph.parent.glob(f"{self._graph.name}*"))  # with external data
        options = (self._output, self._pooling, self._limit, self._prompt, self._query_prompt)
        digest = hashlib.sha256()
        for path in [*files, self._folder / "tokenizer.json"]:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        digest.update(repr(options).encode())
        return digest.hexdigest()


def packages() -> tuple[Any, Any]:
    try:
        import onnxruntime  # type: ignore[import-untyped]
        import tokenizers
    except ImportError as error:
        raise RecollectError(
            "ONNX models need more packages: pip install 'recollect[onnx]'."
        ) from error
    return onnxruntime, tokenizers


def find_graph(folder: Path) -> Path:
    if not folder.is_dir():
        raise InvalidInput(
            f"{folder} is not a folder. RECOLLECT_EMBEDDINGS must name a folder with an ONNX model."
        )
    for name in GRAPHS:
        if (folder / name).is_file():
            return folder / name
    raise InvalidInput(
        f"{folder} contains no ONNX model. Expected one of these files: {', '.join(GRAPHS)}."
    )


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if there is no such file."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} could not be read as JSON: {brief(error)}.") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} does not contain a JSON object.")
    return value


def pooling(path: Path) -> str:
    """How token states become one vector: "mean" (the default), or "cls" for the first token."""
    config = read_json(path)
    modes = [
        key for key, value in config.items() if key.startswith("pooling_mode_") and value is True
    ]
    if not modes:
        modes = [str(config.get("pooling_mode") or "mean")]
    if len(modes) > 1 or modes[0] not in POOLINGS:
        raise InvalidInput(
            f"{path} requires {', '.join(modes)}. Recollect supports only pooling by the mean "
            "and by the first token."
        )
    return POOLINGS[modes[0]]


def token_limit(config: dict[str, Any]) -> int:
    """The most tokens that the model takes."""
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int) or positions < 8:
        return DEFAULT_TOKENS
    if config.get("model_type") in OFFSET_POSITIONS:
        positions -= int(config.get("pad_token_id") or 0) + 1
    return min(positions, MOST_TOKENS)


def _tokenizer(tokenizers: Any, path: Path, limit: int) -> Any:
    if not path.is_file():
        raise InvalidInput(
            f"{path} is missing. An ONNX model needs the tokenizer it was trained with."
        )
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises no narrower exception
        raise InvalidInput(f"{path} could not be read as a tokenizer: {brief(error)}.") from error
    tokenizer.enable_truncation(limit)
    return tokenizer


def _session(runtime: Any, graph: Path, threads: int) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Texts have many lengths, so memory that is kept for each shape would be wasted. Idle threads
    # must not keep processors busy.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return runtime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the exceptions of the runtime have no other base class
        raise InvalidInput(
            f"{graph} could not be read as an ONNX model: {brief(error)}."
        ) from error


def _inputs(session: Any, graph: Path) -> dict[str, Any]:
    """The inputs of the graph, each with its integer type."""
    inputs = {value.name: INTEGERS.get(value.type) for value in session.get_inputs()}
    if "input_ids" not in inputs or not inputs.keys() <= set(INPUTS) or None in inputs.values():
        actual = ", ".join(f"{value.name} {value.type}" for value in session.get_inputs())
        raise InvalidInput(
            f"{graph} is not a text model: it takes {actual}. Expected are {', '.join(INPUTS)}."
        )
    return inputs


def scales_by_batch(graph: Path) -> bool:
    """Whether the graph quantises its activations while it runs.

    The names of operators are plain text in the file.
    """
    with graph.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(b"DynamicQuantize") >= 0


def brief(error: Exception) -> str:
    return truncate(" ".join(str(error).split()), 300).rstrip(".")
