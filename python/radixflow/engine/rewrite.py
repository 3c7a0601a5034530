"""One rewrite of vLLM's ``Scheduler.schedule()``: four places of its waiting loop ask us before they act.

The edited function keeps vLLM's globals, file name and line numbers, so that a traceback points at vLLM's
own lines. Nothing of vLLM is patched: the result is a function that our subclass calls.

========== ============================================== =========================================
site       found as                                       the inserted question
========== ============================================== =========================================
gate       after ``request = request_queue.peek_request()`` does the round end here; is this request held
                                                          back in it?
allocation before the last ``break`` of ``if new_blocks is  is its state being written in this round?
           None``
zero       before the last ``break`` of both ``if           may others use what is left of the budget?
           num_new_tokens == 0``
========== ============================================== =========================================

Where the answer is yes, the loop's own idiom skips the request.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from radixflow.engine.compat import VllmRelease
from radixflow.errors import UnsupportedError

STOP_HOOK = "self._radixflow_stop(token_budget)"
GATE_HOOK = "self._radixflow_gate(request)"
ALLOCATION_HOOK = "self._radixflow_allocation(request, new_computed_blocks)"
ZERO_HOOK = "self._radixflow_zero(request)"

_PEEK = "request = request_queue.peek_request()"
_NO_BLOCKS = "new_blocks is None"
_NO_TOKENS = "num_new_tokens == 0"


@dataclass(frozen=True, slots=True)
class _Site:
    """A place in the loop: the hook's statements go into ``body`` before ``index``, on ``line``."""

    name: str
    body: list[ast.stmt]
    index: int
    line: int
    indent: int
    hook: str
    anchor: ast.stmt


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The edited function, and what a person wants to know about the edit."""

    function: Callable[..., Any]
    original: str
    """Source text of vLLM's function."""
    edited: str
    """The same text with the inserted lines, for reading; the function is compiled from the tree."""
    sites: dict[str, int]


def _parse(source: str) -> tuple[ast.Module, ast.FunctionDef]:
    """Parse a method's text as it is indented in its class, so that columns stay right too."""
    module = ast.parse("class Scheduler:\n" + source)
    holder = module.body[0]
    assert isinstance(holder, ast.ClassDef)
    functions = [node for node in holder.body if isinstance(node, ast.FunctionDef)]
    if len(functions) != 1:
        raise UnsupportedError(f"Scheduler.schedule(): {len(functions)} functions found in its source, 1 expected")
    return module, functions[0]


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield every statement list below ``node``, outermost first."""
    for child in ast.walk(node):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(child, field, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body


def _waiting_loop(function: ast.FunctionDef) -> ast.While:
    """Find the loop over waiting requests: the one that peeks at a request queue in its own body."""
    loops = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.While) and any(ast.unparse(statement) == _PEEK for statement in node.body)
    ]
    if len(loops) != 1:
        raise UnsupportedError(
            f"Scheduler.schedule(): {len(loops)} loops contain `{_PEEK}`, 1 expected; "
            "this vLLM is not one RadixFlow knows - install vllm==0.29.0"
        )
    return loops[0]


def _find_sites(loop: ast.While) -> list[_Site]:
    """Find the four places, in order of their lines."""
    sites = []
    for body in _bodies(loop):
        for index, statement in enumerate(body):
            if body is loop.body and ast.unparse(statement) == _PEEK:
                line = (statement.end_lineno or statement.lineno) + 1
                sites.append(_Site("gate", body, index + 1, line, statement.col_offset, GATE_HOOK, statement))
            if not isinstance(statement, ast.If) or not isinstance(statement.body[-1], ast.Break):
                continue
            stop = statement.body[-1]
            for name, test, hook in (
                ("allocation", _NO_BLOCKS, ALLOCATION_HOOK),
                ("zero", _NO_TOKENS, ZERO_HOOK),
            ):
                if ast.unparse(statement.test) == test:
                    inner = statement.body
                    sites.append(_Site(name, inner, len(inner) - 1, stop.lineno, stop.col_offset, hook, stop))
    return sorted(sites, key=lambda site: site.line)


def _has_idiom(loop: ast.While, idiom: tuple[str, ...]) -> bool:
    """Whether the loop skips requests by these statements, one after the other."""
    wanted = list(idiom)
    for body in _bodies(loop):
        texts = [ast.unparse(statement) if isinstance(statement, ast.Expr | ast.Continue) else "" for statement in body]
        if any(texts[i : i + len(wanted)] == wanted for i in range(len(texts))):
            return True
    return False


def _inserted_lines(site: _Site, idiom: tuple[str, ...]) -> list[str]:
    """Text of one edit: the question, and the loop's own way to skip a request."""
    pad = " " * site.indent
    stop = [f"{pad}if {STOP_HOOK}:\n", f"{pad}    break\n"] if site.name == "gate" else []
    return [*stop, f"{pad}if {site.hook}:\n", *(f"{pad}    {statement}\n" for statement in idiom)]


def _apply(site: _Site, idiom: tuple[str, ...]) -> None:
    """Insert one edit into the tree, on the line of the statement it belongs to."""
    lines = [line[site.indent :] for line in _inserted_lines(site, idiom)]
    loop = ast.parse("while True:\n" + "".join(f"    {line}" for line in lines)).body[0]
    assert isinstance(loop, ast.While)
    for node in ast.walk(loop):
        ast.copy_location(node, site.anchor)
    site.body[site.index : site.index] = loop.body


def count_sites(source: str) -> dict[str, int]:
    """Count the places of the rewrite in a ``schedule()`` source.

    Raises:
        UnsupportedError: there is no single waiting loop.
    """
    _, function = _parse(source)
    counts = {"gate": 0, "allocation": 0, "zero": 0}
    for site in _find_sites(_waiting_loop(function)):
        counts[site.name] += 1
    return counts


def rewrite_source(source: str, release: VllmRelease) -> tuple[ast.Module, str, dict[str, int]]:
    """Edit a ``schedule()`` source: the tree to compile, the text to read, and the sites.

    The tree is that of ``class Scheduler:`` holding the function, with lines counted from the text's first.

    Raises:
        UnsupportedError: a site is missing or doubled, or the loop skips requests by another idiom.
    """
    module, function = _parse(source)
    loop = _waiting_loop(function)
    sites = _find_sites(loop)
    counts = {name: sum(site.name == name for site in sites) for name in release.sites}
    if counts != dict(release.sites):
        raise UnsupportedError(
            f"Scheduler.schedule(): places of the rewrite found {counts}, {dict(release.sites)} expected; "
            f"install vllm=={release.version} as released"
        )
    if not _has_idiom(loop, release.skip_idiom):
        raise UnsupportedError(
            f"Scheduler.schedule(): its waiting loop does not skip a request by `{'; '.join(release.skip_idiom)}`; "
            f"the places match but the edit would crash at run time - install vllm=={release.version}"
        )
    lines = source.splitlines(keepends=True)
    # The parsed text has one line more (the class) than the source, and lines count from 1.
    for site in reversed(sites):
        lines[site.line - 2 : site.line - 2] = _inserted_lines(site, release.skip_idiom)
    # The tree is edited last to first, so that an insertion doesn't move a later index.
    for site in sorted(sites, key=lambda s: -s.index):
        _apply(site, release.skip_idiom)
    return ast.fix_missing_locations(module), "".join(lines), counts


def rewrite_function(function: Callable[..., Any], release: VllmRelease) -> Rewrite:
    """Return vLLM's function with the four questions inserted; the original is left alone.

    Raises:
        UnsupportedError: the source isn't available or isn't what ``release`` says.
    """
    if function.__code__.co_freevars:
        raise UnsupportedError(f"{function.__qualname__} closes over {function.__code__.co_freevars}; none expected")
    try:
        original = inspect.getsource(function.__code__)
        filename = inspect.getsourcefile(function) or function.__code__.co_filename
    except (OSError, TypeError) as error:
        raise UnsupportedError(f"the source of {function.__qualname__} can't be read ({error})") from error
    module, edited, counts = rewrite_source(original, release)
    # The class line stands before the function's first line.
    ast.increment_lineno(module, function.__code__.co_firstlineno - 2)
    names: dict[str, Any] = {}
    try:
        exec(compile(module, filename, "exec", dont_inherit=True), function.__globals__, names)
    except Exception as error:
        raise UnsupportedError(f"the edited {function.__qualname__} can't be built ({error!r})") from error
    rewritten: Callable[..., Any] = names["Scheduler"].__dict__[function.__name__]
    rewritten.__module__ = function.__module__
    return Rewrite(rewritten, original, edited, counts)
