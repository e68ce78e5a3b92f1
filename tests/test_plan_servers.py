"""`mage plan` with a vLLM server, or several, over the cards of a machine."""

from __future__ import annotations

import re

import pytest

from mage.errors import ConfigError
from mage.planning.measured import GIB
from mage.planning.plan import plan
from tests.test_plan import part, rate

SERVER = ["engine=vllm", "agent.server=http://127.0.0.1:8000"]


@pytest.mark.parametrize(("gpus", "gib"), [(64, 80.0), (64, 139.0), (8, 80.0)])
def test_seventy_billion_need_a_server_that_is_spread_over_cards(gpus: int, gib: float) -> None:
    found = plan("rps-llm", model="70b", gpus=gpus, gib=gib)
    assert not found.fits
    assert any(f"{gpus - 1} of {gpus} cards are not used" in note for note in found.notes)
    (advised,) = re.findall(r"it fits with (.*)$", found.verdict)
    values = advised.split()
    assert {*SERVER, f"learner.ranks={gpus}"} <= {*values}
    assert plan("rps-llm", values, model="70b", gpus=gpus, gib=gib).fits
    assert not plan("rps-llm", [one for one in values if one not in SERVER], model="70b", gpus=gpus, gib=gib).fits


def test_a_server_is_on_the_cards_of_the_first_machine_and_the_model_on_the_host() -> None:
    values = ["learner.ranks=64", "learner.gradient_checkpointing=true", "learner.token_budget=8192", *SERVER]
    found = plan("rps-llm", values, model="70b", gpus=64)
    assert found.fits, "all weights, without an adapter"
    names = [(card.name, card.count) for card in found.cards]
    assert names == [("rank 0 + server", 1), ("ranks 1 to 7 + server", 7), ("ranks 8 to 63", 56)]
    assert part(found, "server's weights", 1) == pytest.approx(2 * found.parameters / 8 / GIB)
    assert part(found, "weights") == pytest.approx(4 * found.parameters / 64 / GIB)
    assert not any("engine" in one.name for card in found.cards for one in card.parts)
    assert [card.start_bytes for card in found.cards] == [0, 0, 0]
    notes = " ".join(found.notes)
    assert "64 ranks are on 8 machines, where torchrun starts them" in notes
    assert "loaded on rank 0's host, 282 GB in float32 at first; 141 GB are there again for each publication" in notes
    assert "agent.slots = 0" not in notes
    alone = plan("rps-llm", SERVER, gpus=1)
    assert [card.name for card in alone.cards] == ["learner + server"]
    assert "host" not in " ".join(alone.notes)


def test_several_servers_share_the_cards_of_the_first_machine() -> None:
    two = ["engine=vllm", "agent.server=[http://127.0.0.1:8000, http://127.0.0.1:8001]"]
    values = ["learner.ranks=16", "learner.gradient_checkpointing=true"]
    one, several = (plan("rps-llm", [*values, *servers], model="70b", gpus=16) for servers in (SERVER, two))
    for name in ("server's weights", "server's KV cache"):
        assert part(several, name) == pytest.approx(2 * part(one, name)), name
        (source,) = {found.source for found in several.cards[0].parts if found.name == name}
        assert "each of 2 servers over 4 cards (--tensor-parallel-size 4); not tried" in source
    assert part(several, "server's weights", 1) == pytest.approx(2 * several.parameters / 4 / GIB)
    assert rate(several, "generation", "tokens/s") <= 2 * rate(one, "generation", "tokens/s")
    assert rate(several, "playing", "s a step") < rate(one, "playing", "s a step")
    three = f"{two[1][:-1]}, http://127.0.0.1:8002]"
    with pytest.raises(ConfigError, match=r"agent\.server names 3 servers: .* and the first machine has 8$"):
        plan("rps-llm", [*values, two[0], three], model="7b", gpus=16)
    large = ["learner.ranks=64", values[1], "learner.token_budget=1024"]
    crowded = plan("rps-llm", [*large, *two], model="70b", gpus=64)
    assert not crowded.fits
    assert SERVER[1] in re.findall(r"it fits with (.*)$", crowded.verdict)[0].split(" or with ")
    assert plan("rps-llm", [*large, *SERVER], model="70b", gpus=64).fits


def test_the_requests_to_a_server_are_bounded() -> None:
    usual, more, fewer = (
        plan("rps-llm", [*SERVER, *slots], gpus=2) for slots in ([], ["agent.slots=1024"], ["agent.slots=128"])
    )
    assert part(usual, "server's KV cache") == pytest.approx(2 * part(fewer, "server's KV cache"))
    assert part(more, "server's KV cache") == part(usual, "server's KV cache"), "256 are open at once"
    assert rate(more, "generation", "tokens/s") == rate(usual, "generation", "tokens/s")


def test_a_card_of_a_server_has_whole_heads() -> None:
    one, two, four = (
        part(plan("rps-llm", SERVER, model="qwen2.5-1.5b", gpus=gpus), "server's KV cache") for gpus in (1, 2, 4)
    )
    assert two == four == pytest.approx(one / 2), "of keys and values there are two"


@pytest.mark.parametrize(
    ("model", "cards"),
    [("70b", 8), ("7b", 4), ("qwen2.5-1.5b", 6), ("smollm2", 3)],
    ids=["64/8", "28/4", "12/2", "9/3"],
)
def test_a_server_is_over_as_many_cards_as_divide_the_heads(model: str, cards: int) -> None:
    """vLLM does not start over others."""
    found = plan("rps-llm", [*SERVER, f"learner.ranks={cards + 1}"], model=model, gpus=16)
    (source,) = {one.source for one in found.cards[0].parts if one.name == "server's weights"}
    assert source == f"over {cards} cards (--tensor-parallel-size {cards}); not tried"
    assert sum(card.count for card in found.cards if "server" in card.name) == cards


def test_cards_that_a_server_leaves_unused_are_not_for_workers() -> None:
    for values, is_said in ((SERVER, False), ([], True)):
        (note,) = (note for note in plan("rps-llm", values, gpus=16).notes if "cards are not used" in note)
        assert ("rollout.workers" in note) is is_said


def test_vllm_in_a_process_takes_its_share_of_the_card() -> None:
    found = plan("rps+smollm2", ["engine=vllm"], gib=100)
    card = found.cards[0]
    engine = sum(one.num_bytes for one in card.parts if one.name in ("engine's weights", "KV cache"))
    assert engine == pytest.approx(0.4 * 100 * GIB)
    assert found.fits
    assert any("that of our engine on one card; vLLM was" in note for note in found.notes)
    speeds = {one.name: one.basis for one in found.rates}
    assert (speeds["reading"], speeds["generation"]) == ("extrapolated", "extrapolated")
    workers = plan("rps+smollm2", ["engine=vllm", "rollout.workers=2", "rollout.gpus=0.5"], gpus=2, gib=100)
    taken = sum(one.num_bytes for one in workers.cards[0].parts if one.name.startswith("worker: ")) / GIB
    assert taken == pytest.approx(2 * (0.85 * 0.5 * 100 + 2 * found.parameters / GIB))


def test_a_model_that_vllm_has_no_room_for_in_a_process_is_refused_in_a_line() -> None:
    needs = r"engine = vllm: in a process it gets 40% of a card, 32.0 GiB; the weights with the cache .* need 131\.\d"
    with pytest.raises(ConfigError, match=needs):
        plan("rps+smollm2", ["engine=vllm"], model="70b")
    assert plan("rps+smollm2", ["engine=vllm"], gpus=0).fits
    with pytest.raises(ConfigError, match=r"agent.server = 'ftp://x' is no address"):
        plan("rps+smollm2", ["engine=vllm", "agent.server=ftp://x"])
