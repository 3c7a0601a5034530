"""Where the embedded model lives on disk, and how it gets there once, whole, and unharmed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from radixflow.models import tokenizer, weights
from radixflow.models.shape import ModelShape

MANIFEST = "manifest.json"
HOME_VARIABLE = "RADIXFLOW_HOME"


class ModelStoreError(RuntimeError):
    """The model folder could not be written or read; the message names the folder and what to change."""


def home(environ: Mapping[str, str] | None = None) -> Path:
    """Return RadixFlow's cache folder: `$RADIXFLOW_HOME`, else `radixflow` in the user's cache folder."""
    environ = os.environ if environ is None else environ
    if chosen := environ.get(HOME_VARIABLE):
        return Path(chosen).expanduser()
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "radixflow"


def json_bytes(document: object) -> bytes:
    """Return a JSON document as a model's files have it."""
    return (json.dumps(document, indent=1, ensure_ascii=True) + "\n").encode()


class Buildable(Protocol):
    """What the files of a model are made from."""

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary."""

    @property
    def max_position(self) -> int:
        """Tokens of the longest prompt plus answer."""

    def hf_config(self, *, eos_token_id: int, pad_token_id: int) -> dict[str, object]:
        """Return `config.json`."""


def files_of(shape: Buildable, safetensors: bytes) -> dict[str, bytes]:
    """Return every file of a model, name -> bytes: configuration, tokenizer, and the weights given."""
    vocab = tokenizer.vocabulary(shape.vocab_size)
    eos, pad = vocab[tokenizer.END_OF_TURN], vocab[tokenizer.END_OF_TEXT]
    return {
        "config.json": json_bytes(shape.hf_config(eos_token_id=eos, pad_token_id=pad)),
        "generation_config.json": json_bytes({"eos_token_id": eos, "pad_token_id": pad}),
        "model.safetensors": safetensors,
        "tokenizer.json": json_bytes(tokenizer.tokenizer_json(vocab)),
        "tokenizer_config.json": json_bytes(tokenizer.tokenizer_config(shape.max_position)),
    }


def build_files(shape: ModelShape) -> dict[str, bytes]:
    """Return every file of the embedded model; the same bytes for the same shape on any machine."""
    return files_of(shape, weights.safetensors_bytes(shape))


def content_hash(files: Mapping[str, bytes]) -> str:
    """Return the sha256 (hex) over the sorted list of file names and their own sha256."""
    lines = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _is_intact(folder: Path, files: Mapping[str, bytes]) -> bool:
    try:
        return all((folder / name).read_bytes() == data for name, data in files.items())
    except OSError:
        return False


def _publish(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write `files` beside `folder`, then rename into place: nobody ever sees half a model."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, data in files.items():
            (staging / name).write_bytes(data)
        staging.chmod(0o755)
        if folder.exists():
            # Someone damaged it, or a builder finished since we looked; a folder cannot be renamed over a
            # full one.
            if _is_intact(folder, files):
                return
            folder.rename(staging.with_name(f"{staging.name}.damaged"))
        try:
            staging.rename(folder)
        except OSError:
            # A second builder was faster: its files are ours, unless it failed too.
            if not _is_intact(folder, files):
                raise
    finally:
        for leftover in (staging, staging.with_name(f"{staging.name}.damaged")):
            shutil.rmtree(leftover, ignore_errors=True)


def embedded_model(shape: ModelShape | None = None, *, root: Path | None = None) -> Path:
    """Return the folder of the embedded model, building it if it is missing or damaged.

    Args:
        shape: sizes and seed; the default is the model that `radixflow bench` serves.
        root: cache folder; default `home()`.

    Returns:
        `<root>/models/tiny-gdn-<first 16 hex digits of the content hash>`, with config, weights (bfloat16, a
        few megabytes), tokenizer, chat template and `manifest.json` (sha256 of each file, seed, shape).
        Building takes well under a second; two builders at once end with one whole folder.

    Raises:
        ModelStoreError: when the cache folder cannot be written.
    """
    shape = ModelShape() if shape is None else shape
    return keep("tiny-gdn", build_files(shape), {"seed": shape.seed, "shape": shape.model_dump()}, root=root)


def keep(stem: str, files: Mapping[str, bytes], details: Mapping[str, object], *, root: Path | None = None) -> Path:
    """Write a model's files into the cache folder, unless they are there; return their folder.

    Args:
        stem: start of the folder's name; the content hash is its end.
        files: name -> bytes.
        details: what the manifest says beside the hashes.
        root: cache folder; default `home()`.

    Raises:
        ModelStoreError: when the cache folder cannot be written.
    """
    digest = content_hash(files)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    manifest = json_bytes({"content_sha256": digest, **details, "files": hashes})
    whole = {**files, MANIFEST: manifest}
    folder = (home() if root is None else root) / "models" / f"{stem}-{digest[:16]}"
    if _is_intact(folder, whole):
        return folder
    try:
        _publish(folder, whole)
    except OSError as error:
        raise ModelStoreError(
            f"cannot write the embedded model to {folder}: {error.strerror or error}; "
            f"set {HOME_VARIABLE} to a folder that can be written"
        ) from error
    return folder
