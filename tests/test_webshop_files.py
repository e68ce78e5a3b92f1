"""WebShop's own files: a small catalogue made by hand in their format is read, searched, bought from and refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mage.checks.worlds import check_world
from mage.errors import ConfigError
from mage.opponents.agent_seat import seat_agent
from mage.rollout.trial import play_trial
from mage.types import Task
from mage.worlds.registry import load_world
from mage.worlds.webshop.files import read_catalogue

ITEMS: list[dict[str, Any]] = [
    {
        "asin": "B07AAAAAA1",
        "name": "Lumo Women's Rain Jacket - Waterproof\nHooded Shell for Hiking",
        "category": "fashion",
        "query": "Women's Jackets",
        "product_category": "Clothing › Women › Coats › Raincoats",
        "full_description": "Keeps the rain out.",
        "small_description": ["Machine wash", "Sealed seams", None],
        "pricing": "$34.99",
        "customization_options": {
            "Color": [{"value": "Navy/White", "image": None}, {"value": "red", "price": "$1"}],
            "Size": [{"value": "Small"}, {"value": "Large"}],
            "Style": None,
        },
        "images": ["http://example.org/1.jpg"],
        "list_price": "",
    },
    {
        "asin": "B07AAAAAA2",
        "name": "Lumo Women's Wind Jacket",
        "category": "fashion",
        "query": "women's jackets",
        "product_category": "Clothing › Women › Coats › Windbreakers",
        "full_description": None,
        "small_description": "Packs into its pocket",
        "pricing": "$1,020.00$1,060.50",
        "customization_options": "",
        "images": [],
    },
    {
        "asin": "B07AAAAAA3",
        "name": "Orbi Desk Fan",
        "category": "electronics",
        "query": "fans",
        "product_category": "Home › Cooling › Fans",
        "full_description": "A quiet fan.",
        "small_description": [],
        "pricing": None,
        "customization_options": {"size": [{"value": "buy now"}, {"value": "8 inch"}], "speed": [{"value": "8 inch"}]},
        "images": [],
    },
    {"asin": "B07AAAAAA3", "name": "the same again"},
    {"asin": "nan", "name": "no number"},
    {"asin": "B07AAAAAA44", "name": "too long a number"},
]
ATTRIBUTES = {
    "B07AAAAAA1": {
        "attributes": ["waterproof", "machine wash"],
        "instruction": "Find me machine wash women's jackets.",
        "instruction_attributes": ["machine wash"],
    },
    "B07AAAAAA2": {"attributes": ["windproof"], "instruction": None, "instruction_attributes": None},
    "B07AAAAAA3": {"attributes": []},
}
GOALS = {
    "B07AAAAAA1": [
        {
            "instruction": "i need a waterproof jacket for women in navy.",
            "instruction_attributes": ["waterproof", "machine wash"],
            "instruction_options": {"color": "navy | white", "size": "large"},
        },
        {"instruction": "no attributes", "instruction_attributes": [], "instruction_options": []},
    ],
    "B07AAAAAA3": [
        {"instruction": "a quiet desk fan", "instruction_attributes": ["quiet"], "instruction_options": ["8 inch"]}
    ],
    "B000000000": [{"instruction": "of no product", "instruction_attributes": ["x"], "instruction_options": []}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in (("items.json", ITEMS), ("ins.json", ATTRIBUTES), ("human.json", GOALS)):
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    return tmp_path


def spec_of(folder: Path, *, with_goals: bool = True, search: str = "offered") -> str:
    goals = f',goals="{folder}/human.json"' if with_goals else ""
    return f'webshop(products="{folder}/items.json",attributes="{folder}/ins.json"{goals},search={search})'


def test_products_are_read_as_webshop_reads_them(folder: Path) -> None:
    catalogue = read_catalogue(folder / "items.json", folder / "ins.json", folder / "human.json", 0)
    jacket, wind, fan = catalogue.products
    assert jacket.title == "Lumo Women's Rain Jacket - Waterproof Hooded Shell for Hiking"
    assert jacket.query == wind.query == "women's jackets"
    assert jacket.category == ("Clothing", "Women", "Coats", "Raincoats")
    assert (jacket.price, fan.price) == (34.99, 100.0)
    assert 1020 <= wind.price <= 1060.5
    assert jacket.options == (("color", ("navy | white", "red")), ("size", ("small", "large")))
    assert fan.options == (("size", ("8 inch",)),), "what could not be clicked is left out"
    assert (jacket.features, wind.features) == (("Machine wash", "Sealed seams"), ("Packs into its pocket",))
    again = read_catalogue(folder / "items.json", folder / "ins.json", folder / "human.json", 0)
    assert again.fingerprint() == catalogue.fingerprint()


def test_goals_are_those_of_people_or_of_the_attributes(folder: Path) -> None:
    by_people = read_catalogue(folder / "items.json", folder / "ins.json", folder / "human.json", 0).goals
    assert sorted(goal.instruction.partition(", and")[0] for goal in by_people) == [
        "a quiet desk fan",
        "i need a waterproof jacket for women in navy",
    ]
    jacket = next(goal for goal in by_people if "jacket" in goal.instruction)
    assert jacket.options == ("navy | white", "large")
    assert jacket.price_limit in (50.0, 60.0, 70.0)
    assert jacket.instruction.endswith(f", and price lower than {jacket.price_limit:.2f} dollars")
    (drawn,) = read_catalogue(folder / "items.json", folder / "ins.json", None, 0).goals
    assert drawn.instruction.startswith("Find me machine wash women's jackets with color: ")
    assert len(drawn.options) == 2


@pytest.mark.parametrize("search", ["offered", "free"])
@pytest.mark.parametrize("with_goals", [True, False])
def test_they_are_played(folder: Path, search: str, with_goals: bool) -> None:
    spec = spec_of(folder, with_goals=with_goals, search=search)
    check_world(spec, range(2), chance_shows=False)
    world = load_world(spec)
    task = Task(spec, (), 0, 0, 2, False, False, 100, "0")
    trial = asyncio.run(play_trial(world, task, 0, lambda task, _: seat_agent(world, "expert", task)))
    assert trial.scores == (1.0, 1.0)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("items.json", None, "items.json' cannot be read: No such file"),
        ("items.json", b"[", "items.json' is not as WebShop's files are: Input data was truncated"),
        ("items.json", b'[{"name": "x"}]', "Object missing required field `asin`"),
        ("items.json", b'[{"asin": 3, "name": "x"}]', "Expected `str`, got `int` - at `$[0].asin`"),
        ("ins.json", b"[]", "ins.json' is not as WebShop's files are: Expected `object`, got `array`"),
        ("human.json", b'{"B07AAAAAA1": [{}]}', "missing required field `instruction`"),
        ("human.json", b"{}", "human.json' has no instruction about a product of"),
        ("human.json", b"\xff", "human.json' is not as WebShop's files are"),
    ],
)
def test_files_that_cannot_be_used_are_refused_in_one_line(
    folder: Path, name: str, content: bytes | None, why: str
) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_world.__wrapped__(spec_of(folder))
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sizes_and_goals_without_products_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="products have the size of their file"):
        load_world(spec_of(folder).replace("webshop(", "webshop(size=6000,"))
    with pytest.raises(ConfigError, match="WebShop's own files are products and attributes"):
        load_world(f'webshop(goals="{folder}/human.json")')
