"""The messages that the package can give, read from its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "python/radixflow"
ERRORS = {
    "UnsupportedError",
    "PolicyError",
    "ConfigError",
    "RadixFlowError",
    "LabelError",
    "ManifestError",
    "BenchError",
    "ServerError",
}
LOGGED = {"info", "warning", "error"}
LISTS = {"refuse", "append"}
"""Methods that collect reasons: of doctor's report, and of the lists that end in one error."""


def _literal(node: ast.expr) -> str | None:
    """Return the text of a string expression, ``...`` where it is filled; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"%[a-z]|%\.\d[a-z]", "...", node.value)
    if isinstance(node, ast.JoinedStr):
        parts = [_literal(part) if isinstance(part, ast.Constant) else "..." for part in node.values]
        return "".join(part or "..." for part in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _literal(node.left), _literal(node.right)
        return None if left is None and right is None else (left or "...") + (right or "...")
    return None


def _is_message(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in ERRORS
    if not isinstance(function, ast.Attribute):
        return False
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    return (owner == "logger" and function.attr in LOGGED) or (owner in ("report", "found") and function.attr in LISTS)


def messages(*paths: str) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of every message in files and folders of the package; nothing named: all of it."""
    for path in paths or (".",):
        root = PACKAGE / path
        for file in [root] if root.is_file() else sorted(root.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and node.args and _is_message(node):
                    text = _literal(node.args[0])
                    if text is not None and pieces(text):
                        yield f"{file.relative_to(PACKAGE)}:{node.lineno}", text


def pieces(text: str) -> list[str]:
    """Return what stands between the places that are filled, three words at least, the longest first."""
    found = [" ".join(piece.split()) for piece in text.split("...")]
    return sorted((piece for piece in found if len(piece.split()) > 2), key=len, reverse=True)
