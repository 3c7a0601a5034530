"""Result folders that cannot be quietly changed: JSON files and a SHA256SUMS over all of them."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from radixflow.bench.errors import BenchError

SUMS = "SHA256SUMS"


def plain(value: object) -> object:
    """Return `value` as JSON can hold it: mappings, lists, and null for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, Path):
        return value.name
    return value


def create_folder(parent: Path, name: str, today: datetime.date | None = None) -> Path:
    """Make and return `<parent>/<date>_<name>`; with `-2`, `-3` ... at its end when there is one already.

    Raises:
        BenchError: when the folder cannot be made.
    """
    date = (today or datetime.datetime.now(datetime.UTC).date()).isoformat()
    for count in range(1, 10_000):
        folder = parent / (f"{date}_{name}" if count == 1 else f"{date}_{name}-{count}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise BenchError(
                f"result_dir is {str(parent)!r}: cannot make {folder.name!r} in it ({error.strerror}); "
                "give a folder that can be written"
            ) from error
        return folder
    raise BenchError(f"result_dir {str(parent)!r} holds too many folders named {date}_{name}; give another name")


def write_json(path: Path, document: object) -> None:
    """Write one JSON document, indented, keys in the order given."""
    path.write_text(json.dumps(plain(document), indent=2, allow_nan=False) + "\n")


def write_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write one JSON object a line."""
    with path.open("w") as stream:
        for row in rows:
            stream.write(json.dumps(plain(row), separators=(",", ":"), allow_nan=False) + "\n")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def seal(folder: Path) -> None:
    """Write SHA256SUMS over every other file of `folder`, in the format of `sha256sum`."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    (folder / SUMS).write_text("".join(f"{_sha256(folder / name)}  {name}\n" for name in names))


def verify(folder: Path) -> list[str]:
    """Return what is wrong with a sealed folder, one line each; an empty list when it is as it was sealed.

    Raises:
        BenchError: when there is no SHA256SUMS.
    """
    try:
        lines = (folder / SUMS).read_text().splitlines()
    except OSError as error:
        raise BenchError(f"{str(folder)!r} has no readable {SUMS}: {error.strerror}") from error
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    problems = [
        f"{name}: missing" if not (folder / name).is_file() else f"{name}: changed"
        for name, digest in listed.items()
        if not (folder / name).is_file() or _sha256(folder / name) != digest
    ]
    present = {path.name for path in folder.iterdir() if path.is_file()} - {SUMS}
    return problems + [f"{name}: not listed" for name in sorted(present - listed.keys())]
