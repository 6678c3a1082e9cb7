from __future__ import annotations

import re
from itertools import chain, product

import pytest

from tests.tables import each_row
from trainer.common.validation import SettingsError
from trainer.pytorch.data.digits import DigitsConfig
from trainer.pytorch.data.sampler import IndexSampler, check_batch


def sampler(*, rank=0, world_size=1, num_samples=103, batch_size=12, seed=0) -> IndexSampler:
    return IndexSampler(num_samples=num_samples, batch_size=batch_size, rank=rank, world_size=world_size, seed=seed)


def take(source, count) -> list[list[int]]:
    return [next(source).tolist() for _ in range(count)]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_ranks_together_use_each_sample_at_most_once_an_epoch(world_size):
    ranks = [sampler(rank=rank, world_size=world_size) for rank in range(world_size)]
    steps = ranks[0].steps_per_epoch
    used = [index for rank in ranks for batch in take(rank, steps) for index in batch]
    assert len(used) == len(set(used)) == steps * 12
    assert {rank.epoch for rank in ranks} == {1}


def test_global_batches_do_not_depend_on_the_number_of_ranks():
    alone = take(sampler(), 20)
    pair = zip(take(sampler(rank=0, world_size=2), 20), take(sampler(rank=1, world_size=2), 20), strict=True)
    assert [first + second for first, second in pair] == alone


def test_order_changes_with_epoch_and_seed_only():
    source = sampler(num_samples=24)
    first_epoch, second_epoch = take(source, 2), take(source, 2)
    assert first_epoch != second_epoch
    assert sorted(chain(*first_epoch)) == sorted(chain(*second_epoch)) == list(range(24))
    assert take(sampler(num_samples=24), 2) == first_epoch
    assert take(sampler(num_samples=24, seed=1), 2) != first_epoch


@each_row("done", range(18))
def test_restored_state_continues_with_the_very_next_batch(done):
    uninterrupted = sampler()
    take(uninterrupted, done)
    state = uninterrupted.state_dict()
    resumed = sampler()
    resumed.load_state_dict(state)
    assert take(resumed, 20) == take(uninterrupted, 20)


def test_state_saved_by_two_ranks_continues_on_one():
    pair = [sampler(rank=rank, world_size=2) for rank in range(2)]
    for rank in pair:
        take(rank, 5)
    alone = sampler()
    alone.load_state_dict(pair[1].state_dict())
    assert next(alone).tolist() == next(pair[0]).tolist() + next(pair[1]).tolist()


def test_a_batch_size_that_is_suggested_is_accepted():
    suggested = set[str]()
    for batch_size, ranks, parts, samples in product(range(1, 40), (1, 2, 3), (1, 2, 4), (None, 1, 7, 23, 100)):
        shares = {"ranks": ranks, "microbatches": parts, "samples": samples}
        try:
            check_batch(batch_size, **shares)
        except SettingsError as error:
            suggestion = re.search(r"(for example|--batch_size) (\d+)", str(error))
            if suggestion is None:
                assert "Fix: fewer of them, or more samples" in str(error)  # noqa: PT017  one of many
                assert samples < ranks * parts
            else:
                check_batch(int(suggestion[2]), **shares)
                suggested.add(suggestion[1])
    assert suggested == {"for example", "--batch_size"}


def test_refuses_what_cannot_be_shared_or_filled():
    with pytest.raises(
        ValueError, match=r"batch_size=10: 4 data-parallel ranks cannot .* Fix: a multiple of 4, for .* 12"
    ):
        sampler(batch_size=10, world_size=4)
    with pytest.raises(
        ValueError, match=r"batch_size=10: 2 data-parallel ranks x 3 microbatches cannot .* multiple of 6"
    ):
        check_batch(10, ranks=2, microbatches=3)
    with pytest.raises(
        ValueError, match=r"must be at most 23, .* Fix: --batch_size 16, or less in steps of 8, or more"
    ):
        check_batch(64, ranks=2, microbatches=4, samples=23)
    with pytest.raises(ValueError, match="batch_size=104: must be at most 103"):
        sampler(batch_size=104)
    with pytest.raises(ValueError, match=r"seed=0: .* seed 1"):
        sampler().load_state_dict({"epoch": 0, "offset": 0, "seed": 1})
    with pytest.raises(ValueError, match="batch_size=0: must be at least 1"):
        DigitsConfig(data_dir=".", batch_size=0)
