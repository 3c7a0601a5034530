"""The table of cells in docs/policies.md is what the command prints: some of its rows, run again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from radixflow.simulate.cells import all_cells
from radixflow.simulate.table import run_cells, to_markdown

DOCUMENT = (Path(__file__).parents[2] / "docs/policies.md").read_text()
(TABLE,) = re.findall(r"<!-- cells -->\n(.*?)<!-- /cells -->", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize(
    ("name", "block"), [("long C1", 528), ("short C8", 32), ("burst 32", 528), ("wide 16", 64), ("lone", 528)]
)
def test_a_row_is_reproduced_to_the_digit(name, block):
    cells = [cell for cell in all_cells([block]) if cell.name == name]
    printed = to_markdown(list(run_cells(cells, {"planned": {"policy": "planned"}}))).splitlines()
    assert printed[0] in TABLE.splitlines()
    assert printed[-1] in TABLE.splitlines()


def test_every_cell_is_in_the_table_and_none_is_worse():
    rows = [line for line in TABLE.splitlines() if re.match(r"\| \w+.* \| \d+ \|", line)]
    shown = {tuple(part.strip() for part in row.split("|")[1:3]) for row in rows}
    assert shown == {(cell.name, str(cell.block_size)) for cell in all_cells()}
    assert {row.split("|")[-2].strip() for row in rows} == {"-"}
