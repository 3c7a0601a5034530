"""The rewrite on small sources: what it finds, where it inserts, and what it refuses."""

from __future__ import annotations

import ast

import pytest

from radixflow.engine.compat import RELEASES, VllmRelease, check_release, public_version
from radixflow.engine.rewrite import count_sites, rewrite_source
from radixflow.errors import UnsupportedError

RELEASE = RELEASES["0.29.0"]

SOURCE = """\
    def schedule(self, throttle_prefills=False):
        while self.running:
            if num_new_tokens == 0:
                break
            if new_blocks is None:
                break
        while self.waiting:
            request_queue = self.pick()
            request = request_queue.peek_request()
            if self.blocked(request):
                request_queue.pop_request()
                step_skipped_waiting.prepend_request(request)
                continue
            if self.align:
                if num_new_tokens == 0:
                    break
            if num_new_tokens == 0:
                # Nothing fits.
                break
            new_blocks = self.allocate(request)
            if new_blocks is None:
                if request.has_encoder_inputs:
                    self.free(request)
                break
            self.admit(request)
        return None
"""

EDITED = """\
    def schedule(self, throttle_prefills=False):
        while self.running:
            if num_new_tokens == 0:
                break
            if new_blocks is None:
                break
        while self.waiting:
            request_queue = self.pick()
            request = request_queue.peek_request()
            if self._radixflow_stop(token_budget):
                break
            if self._radixflow_gate(request):
                request_queue.pop_request()
                step_skipped_waiting.prepend_request(request)
                continue
            if self.blocked(request):
                request_queue.pop_request()
                step_skipped_waiting.prepend_request(request)
                continue
            if self.align:
                if num_new_tokens == 0:
                    if self._radixflow_zero(request):
                        request_queue.pop_request()
                        step_skipped_waiting.prepend_request(request)
                        continue
                    break
            if num_new_tokens == 0:
                # Nothing fits.
                if self._radixflow_zero(request):
                    request_queue.pop_request()
                    step_skipped_waiting.prepend_request(request)
                    continue
                break
            new_blocks = self.allocate(request)
            if new_blocks is None:
                if request.has_encoder_inputs:
                    self.free(request)
                if self._radixflow_allocation(request, new_computed_blocks):
                    request_queue.pop_request()
                    step_skipped_waiting.prepend_request(request)
                    continue
                break
            self.admit(request)
        return None
"""


def test_the_four_places_are_edited_and_the_running_loop_is_not():
    tree, text, sites = rewrite_source(SOURCE, RELEASE)
    assert text == EDITED
    assert sites == {"gate": 1, "allocation": 1, "zero": 2}
    assert ast.unparse(tree) == ast.unparse(ast.parse("class Scheduler:\n" + EDITED))


def test_inserted_statements_stand_on_the_lines_of_the_originals():
    tree, _, _ = rewrite_source(SOURCE, RELEASE)
    original_lines = {node.lineno for node in ast.walk(ast.parse("class S:\n" + SOURCE)) if hasattr(node, "lineno")}
    assert {node.lineno for node in ast.walk(tree) if hasattr(node, "lineno")} == original_lines


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("request = request_queue.peek_request()", "request = request_queue[0]"), "0 loops contain"),
        (
            ("if new_blocks is None:\n                if", "if not new_blocks:\n                if"),
            "'allocation': 0",
        ),
        (
            ("if num_new_tokens == 0:\n                # N", "if num_new_tokens < 1:\n                # N"),
            "'zero': 1",
        ),
        (("step_skipped_waiting.prepend_request", "skipped.append"), "does not skip a request by"),
        (("                request_queue.pop_request()\n", ""), "does not skip a request by"),
    ],
)
def test_a_source_that_differs_is_refused(change, message):
    assert change[0] in SOURCE
    with pytest.raises(UnsupportedError, match=message):
        rewrite_source(SOURCE.replace(*change), RELEASE)


def test_the_idiom_must_be_in_the_waiting_loop_itself():
    moved = SOURCE.replace(
        "            if self.blocked(request):\n"
        "                request_queue.pop_request()\n"
        "                step_skipped_waiting.prepend_request(request)\n"
        "                continue\n",
        "",
    ).replace(
        "        while self.running:\n",
        "        while self.running:\n"
        "            request_queue.pop_request()\n"
        "            step_skipped_waiting.prepend_request(request)\n"
        "            continue\n",
    )
    with pytest.raises(UnsupportedError, match="does not skip a request by"):
        rewrite_source(moved, RELEASE)


def test_a_site_that_occurs_twice_is_refused():
    doubled = SOURCE.replace(
        "            self.admit(request)\n", "            if new_blocks is None:\n                break\n"
    )
    assert count_sites(doubled) == {"gate": 1, "allocation": 2, "zero": 2}
    with pytest.raises(UnsupportedError, match="'allocation': 2"):
        rewrite_source(doubled, RELEASE)


@pytest.mark.parametrize(("version", "public"), [("0.29.0", "0.29.0"), ("0.29.0+cpu", "0.29.0"), ("0.30.0", "0.30.0")])
def test_a_local_label_is_not_another_release(version, public):
    assert public_version(version) == public


def test_the_released_source_is_accepted():
    assert check_release("0.29.0+cpu", RELEASE.schedule_sha256) is RELEASE


@pytest.mark.parametrize("version", ["0.28.0", "0.30.0", "0.31.2", "0.29.1.dev3+gabc", "0.29.0rc1"])
def test_another_version_is_refused_with_version_hash_and_fix(version):
    with pytest.raises(UnsupportedError) as caught:
        check_release(version, "ab" * 32)
    message = str(caught.value)
    assert version in message
    assert "abababababab" in message
    assert "pip install vllm==0.29.0" in message


def test_another_source_is_refused_with_both_hashes():
    with pytest.raises(UnsupportedError, match=r"abababababab.*6361fde74c84.*reinstall vllm==0.29.0"):
        check_release("0.29.0", "ab" * 32)


def test_a_release_row_says_all_that_is_relied_on():
    assert isinstance(RELEASE, VllmRelease)
    assert RELEASE.schedule_sha256.startswith("6361fde74c84")
    assert dict(RELEASE.sites) == {"gate": 1, "allocation": 1, "zero": 2}
