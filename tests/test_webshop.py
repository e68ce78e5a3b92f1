"""WebShop: its catalogue, its reward on cases worked by hand, its search, what it tells, and its levels."""

from __future__ import annotations

from math import isclose
from random import Random
from typing import Any

import pytest

from mage.agents.parsing import parse_action
from mage.checks.worlds import check_world
from mage.errors import ConfigError
from mage.extras import EXTRAS
from mage.types import Task
from mage.worlds.openspiel.words.base import NEUTRAL
from mage.worlds.registry import load_world
from mage.worlds.webshop.catalogue import Goal, Product, words_of
from mage.worlds.webshop.generate import BASE, fits, full_query, generated, kinds
from mage.worlds.webshop.reward import nouns, reward, similarity, type_reward
from mage.worlds.webshop.search import Search
from mage.worlds.webshop.world import WebShop

SPECS = ("webshop", "webshop(search=free)", "webshop(reworded=7,list_actions=false)", "webshop(turns=6,seed=1)")
FINGERPRINT = "3ede85420645b4f9136cf6f35b7c13655bc623eed1bd408171554f1309470b88"
"""Of the catalogue and the goals of `webshop`: the same on every machine."""

EARBUDS = Product(
    number="B1",
    title="Zuno Wireless Earbuds, noise cancelling",
    query="earbuds",
    category=("electronics", "audio", "earbuds"),
    price=39.0,
    attributes=("noise cancelling", "sweatproof"),
    features=("noise cancelling", "sweatproof", "Comes with a case"),
    description="Earbuds for long trips.",
    options=(("color", ("black", "navy blue")), ("size", ("s", "m"))),
)
GOAL = Goal(7, "Find: earbuds", ("noise cancelling", "sweatproof"), ("blue", "m"), 40.0, EARBUDS)


def task(world: str = "webshop", seed: int = 0, level: str = "", episodes: int = 3) -> Task:
    return Task(world, (), 0, seed, episodes, False, False, 100, level)


def shop(spec: str = "webshop") -> WebShop:
    world = load_world(spec)
    assert isinstance(world, WebShop)
    return world


def test_the_catalogue_is_the_same_everywhere_and_as_large_as_promised() -> None:
    catalogue = generated(BASE, 0)
    assert catalogue.fingerprint() == FINGERPRINT
    assert len(catalogue.products) == len(catalogue.by_number) == BASE >= 5000
    assert len({product.category[:2] for product in catalogue.products}) == 30
    assert len(kinds()) == 120 == len({product.query for product in catalogue.products})
    assert len(catalogue.goals) == 1000 == len({goal.instruction for goal in catalogue.goals})
    for number, goal in enumerate(catalogue.goals):
        assert goal.number == number
        assert len(goal.attributes) >= 2
        assert goal.options
        assert goal.price_limit >= goal.wanted.price
        assert fits(goal, goal.wanted)
        asked = words_of(goal.instruction)
        assert {*words_of(full_query(goal)), *words_of(f"{goal.price_limit:g}")} <= {*asked}, "all of it is told"
    assert generated(BASE, 1).fingerprint() != FINGERPRINT


def test_a_larger_catalogue_has_the_same_goals_and_more_products() -> None:
    base, larger = generated(BASE, 0), generated(BASE + 600, 0)
    assert larger.goals == base.goals
    assert larger.products[:BASE] == base.products
    assert len(larger.products) == BASE + 600


def test_no_brand_is_shared_by_two_kinds_of_products() -> None:
    brands = [brand for kind in kinds() for brand in kind.brands]
    assert len(brands) == len(set(brands))


@pytest.mark.parametrize(
    ("changes", "chosen", "expected"),
    [
        ({}, ("navy blue", "m"), 5 / 5),  # a part of an option is enough where it is no size
        ({}, ("navy blue", ""), 4 / 5),
        ({}, ("navy blue", "s"), 4 / 5),
        ({}, ("black", "s"), 3 / 5),
        ({}, ("", ""), 3 / 5),
        ({"price": 40.0}, ("navy blue", "m"), 5 / 5),
        ({"price": 40.01}, ("navy blue", "m"), 4 / 5),
        ({"attributes": ("noise-cancelling",), "features": ()}, ("navy blue", "m"), 4 / 5),
        ({"attributes": (), "features": ()}, ("navy blue", "m"), 4 / 5),  # still in the title
        ({"attributes": (), "description": "They are Sweatproof."}, ("navy blue", "m"), 5 / 5),
        ({"title": "Radu Turntable"}, ("navy blue", "m"), 0.0),
        ({"title": "Radu Earbuds", "query": "x", "category": ()}, ("navy blue", "m"), 5 / 5),
    ],
)
def test_rewards_worked_by_hand(changes: dict[str, Any], chosen: tuple[str, ...], expected: float) -> None:
    assert isclose(reward(GOAL, EARBUDS._replace(**changes), chosen), expected)


@pytest.mark.parametrize(
    ("words", "query", "category", "expected"),
    [
        (1, "earbuds", (), 1.0),  # one of ten nouns, and the query
        (1, "other", ("electronics", "audio", "radios"), 1.0),  # and two categories
        (1, "other", ("electronics", "cables"), 0.5),
        (2, "other", (), 0.5),  # a fifth is not more than a fifth
        (3, "other", (), 1.0),
        (0, "earbuds", ("electronics", "audio", "earbuds"), 0.0),
    ],
)
def test_kinds_of_products_are_compared_as_published(
    words: int, query: str, category: tuple[str, ...], expected: float
) -> None:
    names = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
    bare = EARBUDS._replace(attributes=(), options=())
    goal = GOAL._replace(wanted=bare._replace(title=" ".join(names)))
    other = bare._replace(title=" ".join([*names[:words], "omega"]), query=query, category=category)
    assert type_reward(goal, other) == expected
    twenty = goal._replace(wanted=bare._replace(title=" ".join([*names, *(f"{name}s" for name in names)])))
    assert type_reward(twenty, bare._replace(title="alpha", query="earbuds")) == 0.1


def test_nouns_are_brand_and_kind() -> None:
    assert nouns(EARBUDS) == {"zuno", "wireless", "earbuds"}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("navy blue", "blue", 1.0),
        ("Blue, Navy", "navy blue", 1.0),
        ("black", "blue", 2 * 2 / 9),
        ("", "blue", 0.0),
        ("water resistant", "water resistance", 2 * 14 / 31),
    ],
)
def test_texts_are_compared_as_sets_of_words(one: str, other: str, expected: float) -> None:
    assert isclose(similarity(one, other), expected)
    assert similarity(one, other) == similarity(other, one)


def test_rewards_are_between_0_and_1() -> None:
    catalogue, rng = generated(BASE, 0), Random(0)
    seen = set[float]()
    for _ in range(3000):
        goal, product = rng.choice(catalogue.goals), rng.choice(catalogue.products)
        if rng.random() < 0.5:
            product = rng.choice([one for one in catalogue.products if one.query == goal.wanted.query])
        chosen = tuple(rng.choice(["", *values]) for _, values in product.options)
        seen.add(reward(goal, product, chosen))
    assert 0.0 in seen
    assert len(seen) > 5
    assert all(0 <= value <= 1 for value in seen)


def test_a_search_lists_first_what_has_all_the_words() -> None:
    catalogue = generated(BASE, 0)
    search = Search(catalogue.products)
    found = [catalogue.by_number[number] for number in search.find("Earbud, SWEATPROOF")]
    assert len(found) == 50 == len(set(found))
    assert found[0].query == "earbuds"
    assert "sweatproof" in found[0].attributes
    assert search.find("zzz") == search.find("") == ()


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "webshop", ("no_such_package",))
    with pytest.raises(ConfigError, match=r"webshop needs the extra webshop: pip install .*\[webshop\]'"):
        load_world.__wrapped__("webshop")


@pytest.mark.parametrize("spec", SPECS)
def test_it_keeps_the_contract_of_worlds(spec: str) -> None:
    texts = ("search[earbuds]", "click[B0000]", "click[next >]", "click[buy now]", "click[back to search]")
    check_world(spec, range(3), levels=["7"], texts=texts)


@pytest.mark.parametrize("spec", ["webshop", "webshop(reworded=7)"])
def test_texts_read_back_as_the_actions_that_were_meant(spec: str) -> None:
    world, rng = shop(spec), Random(3)
    for level in range(20):
        env = world.new_env(task(spec, level=str(level)), 0)
        while env.to_move() is not None:
            actions = env.observe(0).actions
            assert len(set(actions)) == len(actions)
            for action in actions:
                assert parse_action(f"So: <action> {action.upper()} </action>", actions).action == action
            env.step(rng.choice(actions))


def test_free_search_reaches_the_same_pages_as_offered_queries() -> None:
    """The same actions, typed: the pages have the same facts, and the end tells the same."""
    offered, free = shop(), shop("webshop(search=free)")
    rng = Random(5)
    for level in range(20):
        envs = [
            offered.new_env(task(level=str(level)), 0),
            free.new_env(task("webshop(search=free)", level=str(level)), 0),
        ]
        while envs[0].to_move() is not None:
            one, other = (env.observe(0) for env in envs)
            assert {name: other.facts[name] for name in one.facts} == one.facts
            assert other.actions == ()
            for action in one.actions[rng.randrange(len(one.actions)) :][:1]:
                for env in envs:
                    env.step(action)
        assert envs[0].result().outcomes == envs[1].result().outcomes


@pytest.mark.parametrize("spec", SPECS)
def test_no_observation_depends_on_which_product_is_wanted(spec: str) -> None:
    """With another product of the same kind in its place all is told alike until something is bought."""
    world, products, num_pages = shop(spec), generated(BASE, 0).products, 0
    for number in range(25):
        goal = world.draw(task(spec, level=str(number)))
        kin = [one for one in products if one.query == goal.wanted.query and one != goal.wanted]
        other = goal._replace(wanted=Random(number).choice(kin))
        rng, position = Random(number), world.start(goal)
        while not world.is_over(goal, position):
            assert world.tell(goal, position) == world.tell(other, position)
            assert world.facts(goal, position) == world.facts(other, position)
            assert world.actions(goal, position) == world.actions(other, position)
            actions = [*world.actions(goal, position)] or [world._words.search(goal.queries[0])]
            position = world.after(goal, position, rng.choice(actions))
            num_pages += 1
    assert num_pages > 100


def test_offered_queries_are_made_of_what_is_asked_and_most_of_them_mislead() -> None:
    catalogue = generated(BASE, 0)
    search = Search(catalogue.products)
    first_fits = dict.fromkeys(("full", "attributes", "other kind", "no kind", "one", "kind"), 0)
    for goal in catalogue.goals:
        kind, attributes, options = goal.wanted.query, " ".join(goal.attributes), " ".join(goal.options)
        others = [query for query in goal.queries if not {*words_of(query)} <= {*words_of(full_query(goal))}]
        assert len(goal.queries) == 6
        assert len(others) == 1
        assert others[0].endswith(attributes)
        known = [f"{kind} {attributes} {options}", f"{kind} {attributes}", others[0]]
        known += [f"{attributes} {options}", f"{kind} {goal.attributes[0]}", kind]
        assert sorted(known) == sorted(goal.queries)
        for name, query in zip(first_fits, known, strict=True):
            first_fits[name] += fits(goal, catalogue.by_number[search.find(query)[0]])
    assert first_fits["full"] > 450
    assert first_fits["other kind"] < 10
    assert max(first_fits[name] for name in ("no kind", "one", "kind")) < first_fits["full"] / 2


def test_every_episode_of_a_trial_has_the_same_goal_from_the_start() -> None:
    world = shop()
    first, later = (world.new_env(task(seed=3), episode).observe(0) for episode in (0, 2))
    assert (first.text, first.actions, first.facts) == (later.text, later.actions, later.facts)
    level = world.drawn_level(task(seed=3))
    assert world.new_env(task(seed=99, level=level), 0).observe(0).text == first.text


def test_a_visit_from_page_to_page() -> None:
    env = shop().new_env(task(level="3"), 0)
    first = env.observe(0)
    env.step(f"search[{full_query(shop().draw(task(level='3')))}]")
    results = env.observe(0)
    assert results.text.startswith("Page 1 of 10 for: ")
    env.step("click[next >]")
    assert env.observe(0).facts["number"] == 2
    env.step("click[< prev]")
    assert env.observe(0).facts["results"] == results.facts["results"]
    env.step(results.actions[1])
    item = env.observe(0)
    assert f"click[{item.facts['item']}]" == results.actions[1]
    env.step(item.actions[0])
    assert "(chosen)" in env.observe(0).text
    env.step("click[features]")
    assert "features: " in env.observe(0).text
    env.step("click[< prev]")
    assert env.observe(0).facts["chosen"] != item.facts["chosen"], "what was chosen stays"
    env.step("click[< prev]")
    assert env.observe(0).actions == results.actions
    env.step("click[back to search]")
    assert env.observe(0).actions == first.actions
    assert env.observe(0).facts["turns_left"] == 12 - 9


def test_turns_run_out() -> None:
    env = shop("webshop(turns=6,seed=1)").new_env(task("webshop(turns=6,seed=1)", level="0"), 0)
    for number in range(6):
        env.step("click[back to search]" if number % 2 else env.observe(0).actions[0])
    assert (env.result().returns, env.result().successes) == ((0.0,), (False,))
    assert env.result().outcomes == ("No turns are left, and you took nothing: 0.",)


def test_free_text_that_is_no_action_takes_a_turn_and_is_answered() -> None:
    env = shop("webshop(search=free)").new_env(task("webshop(search=free)", level="3"), 0)
    assert "You can: search[WORDS]" in env.observe(0).text
    env.step("click[buy now]")
    assert env.observe(0).text.startswith("Nothing here is called 'click[buy now]'.\nFind: ")
    env.step("floor liner")  # without brackets: what the page is for
    assert env.observe(0).facts["page"] == "results"
    env.step("search[rake]")
    assert env.observe(0).facts["page"] == "results"
    assert env.observe(0).facts["turns_left"] == 9
    env.step("search[]")
    env.step("Back to Search")
    env.step("zzz")
    assert env.observe(0).text.startswith("Nothing was found for: zzz\n")


def test_reworded_shops_have_none_of_the_usual_words() -> None:
    world = shop("webshop(reworded=7)")
    said = " ".join([world.explain(), world.info.trial, world.info.reflect]).lower()
    assert not {"shop", "search", "click", "product", "buy", "price", "features", "description"} & {*words_of(said)}
    for action in world.new_env(task("webshop(reworded=7)"), 0).observe(0).actions:
        assert action.partition("[")[0] in NEUTRAL


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("webshop(size=100)", "size must be a whole number from 5040 to 100000, not 100"),
        ("webshop(turns=0)", "turns must be a whole number from 1 to 1000, not 0"),
        ("webshop(search=any)", "search must be one of free, offered, not any"),
        ("webshop(list_actions=1)", "list_actions must be true or false, not 1"),
        ("webshop(products=3)", "products must be a path, not 3"),
        ('webshop(products="a.json")', "WebShop's own files are products and attributes"),
        ("webshop(reworded=x)", "reworded must be a whole number"),
        ("webshop(colour=x)", "unknown parameter 'colour'"),
    ],
)
def test_specs_that_cannot_be_played_are_refused_in_one_line(spec: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_world(spec)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("level", ["1000", "-1", "07", "", "seven", "²"])
def test_a_level_that_is_no_goal_is_refused(level: str) -> None:
    with pytest.raises(ConfigError, match="is no goal; goals have the numbers 0 to 999"):
        shop().check_level(level)
