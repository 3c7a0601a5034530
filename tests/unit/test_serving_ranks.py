"""All branches of a decision go to one rank, and decisions spread over ranks."""

from types import SimpleNamespace

import pytest

from radixflow.serving.ranks import RankBook, rank_book


def test_one_engine_needs_no_rank():
    book = RankBook(1)
    with book.place(4) as rank:
        assert rank is None


def test_decisions_take_turns_while_ranks_are_equal():
    book = RankBook(3)
    ranks = []
    for _ in range(6):
        with book.place(4) as rank:
            ranks.append(rank)
    assert ranks == [0, 1, 2, 0, 1, 2]


def test_a_decision_goes_where_fewest_branches_are():
    book = RankBook(2)
    with book.place(64) as first, book.place(1) as second, book.place(1) as third:
        assert (first, second, third) == (0, 1, 1)
        assert book.in_flight == [64, 2]
    assert book.in_flight == [0, 0]


def test_a_failure_gives_the_place_back():
    book = RankBook(2)

    def fail():
        with book.place(5):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert book.in_flight == [0, 0]


@pytest.mark.parametrize(
    ("config", "ranks"),
    [
        ({"data_parallel_size": 4, "data_parallel_size_local": 2, "local_engines_only": False}, 4),
        # Behind another load balancer, vLLM only takes the ranks of its own node.
        ({"data_parallel_size": 4, "data_parallel_size_local": 2, "local_engines_only": True}, 2),
        ({"data_parallel_size": 1, "data_parallel_size_local": 1, "local_engines_only": False}, 1),
    ],
)
def test_ranks_are_those_that_this_process_may_address(config, ranks):
    assert len(rank_book(SimpleNamespace(**config)).in_flight) == ranks


def test_server_processes_begin_apart():
    book = rank_book(SimpleNamespace(data_parallel_size=4, local_engines_only=False, _api_process_rank=2))
    with book.place(1) as rank:
        assert rank == 2
