"""The structure of the package: small files and functions, imports that only look down, the words of the glossary."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import mage
from mage.evaluation.splits import load_split, split_names
from mage.splits.__main__ import definitions
from tests.tree import PAGE, ROOT, with_tree

MODULES = sorted((ROOT / "mage").rglob("*.py"))
MAX_LINES, MAX_FUNCTION_LINES, MAX_PARAMETERS = 350, 60, 8
LAYERS = (
    "ground",
    "config",
    "rollout",
    "credit",
    "worlds",
    "runs",
    "agents",
    "models",
    "engines",
    "opponents",
    "learners",
    "evaluation",
    "splits",
    "checks",
    "league",
    "training",
    "planning",
    "api",
    "view",
    "cli",
)
"""Folders of `mage` from the bottom to the top. `ground` are the files beside them, `api` the verbs and results."""
LOOKS_UP = {
    "mage.worlds.openspiel.world": "opponents",  # a world seats the opponents that its task names
    "mage.worlds.openspiel.exact": "opponents",  # their policies are the hidden types of a trial
    "mage.evaluation.eval_agent": "training",  # an agent under evaluation may be a run's weights
}
"""Modules that import from a layer above their own, and which."""
TORCH_FOLDERS = {"engines", "models", "learners", "training"}
RETIRED = re.compile(
    r"(whoever|somebody|someone|nobody|anybody|whom|judged?|judges|judging|codec|seating|seatings|minds|bench)",
    re.IGNORECASE,
)
"""Words that CONTRIBUTING.md lists as not used."""


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, also inside functions and for type checking alone."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path) for path in MODULES}


def own_imports() -> Mapping[str, set[str]]:
    """For each module of the package the modules of the package that it imports."""
    graph: dict[str, set[str]] = {}
    for path in MODULES:
        found = {name if name in NAMES else name.rpartition(".")[0] for name in imports(path)}
        graph[name_of(path)] = (found & NAMES) - {name_of(path)}
    return graph


def layer_of(module: str) -> str:
    _, *rest = module.split(".")
    if not rest or rest[0] in ("api", "results"):
        return "api"
    return rest[0] if rest[0] in LAYERS else "ground"


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def num_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    names = [arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def has_many_parameters_by_right(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Commands and verbs have as many as they have options, makers of opponents as a spec has; kernels get pointers."""
    folder = path.relative_to(ROOT / "mage").parts[0]
    is_verb = path.name == "api.py" and function.name in mage.__all__
    return folder == "cli" or is_verb or path.name == "kernels.py" or (folder == "opponents" and path.stem == "remote")


def test_the_file_tree_in_the_documentation_is_true() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tree(page), "run python -m tests.tree"


def test_readme_is_read_in_two_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 160


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_are_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES
    for function in functions(path):
        is_command = path.relative_to(ROOT / "mage").parts[0] == "cli" and num_parameters(function) > MAX_PARAMETERS
        lines = (function.end_lineno or 0) - function.lineno + 1
        assert lines <= MAX_FUNCTION_LINES or is_command, (function.name, lines)
        allowed = has_many_parameters_by_right(path, function)
        assert num_parameters(function) <= MAX_PARAMETERS or allowed, function.name


def test_layers_only_look_down() -> None:
    up = {
        (module, layer_of(other))
        for module, others in own_imports().items()
        for other in others
        if LAYERS.index(layer_of(module)) < LAYERS.index(layer_of(other))
    }
    assert up == set(LOOKS_UP.items())


def test_exact_references_know_worlds_only_by_their_protocol() -> None:
    found = {module: others for module, others in own_imports().items() if module.startswith("mage.evaluation.exact")}
    assert len(found) > 5
    seen = {
        other for others in found.values() for other in others if other.startswith(("mage.worlds", "mage.opponents"))
    }
    assert seen == {"mage.worlds.registry"}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """A package's face is left out: what is imported from below it goes through it anyway."""
    graph = {module: {other for other in others if other != "mage"} for module, others in own_imports().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_torch_is_imported_only_where_models_live(path: Path) -> None:
    if path.relative_to(ROOT / "mage").parts[0] not in TORCH_FOLDERS and path.name != "tracker.py":
        assert not [name for name in imports(path) if name.split(".")[0] == "torch"]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_global_randomness(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\brandom\.(random|choice|choices|randint|randrange|seed|shuffle|sample|uniform)\(", text)
    assert "np.random" not in text
    assert "torch.manual_seed(" not in text


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_names_and_sentences_keep_to_the_glossary(path: Path) -> None:
    """Identifiers, docstrings, comments and messages, word by word; what players are told is left out."""
    if path.parent.name == "words":
        return
    seed_path = '_HELD_OUT = "judge"'  # in a seed path: another spelling would give other draws
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        words = re.findall(r"[A-Za-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", token.string).replace("_", " "))
        retired = [word for word in words if RETIRED.fullmatch(word)]
        assert not retired or token.line.strip() == seed_path, (
            f"line {token.start[0]}: {', '.join(retired)}; CONTRIBUTING.md has the glossary"
        )


def test_the_glossary_lists_what_is_not_used() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert all(word in page for word in ("judge", "codec", "seating", "whoever", "somebody", "nobody"))


def test_broad_excepts_stand_at_three_boundaries() -> None:
    """Where a library reads files that others wrote, where users' code is called, and where a trial becomes data."""
    found = [p.relative_to(ROOT) for p in MODULES if re.search(r"except( Base)?( )?Exception", p.read_text())]
    assert [str(p) for p in found] == ["mage/errors.py", "mage/plugin_errors.py", "mage/rollout/group.py"]


CLOCKS = re.compile(r"(time|monotonic|perf_counter|process_time|thread_time)(_ns)?")


def timed_names(tree: ast.AST) -> set[str]:
    """Names that hold what a clock says: variables that are assigned from one, and functions that return it."""
    found: set[str] = set()
    for _ in range(3):  # a name may be assigned from another
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and says_time(node.value, found):
                found |= {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                returned = [n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None]
                found |= {node.name} if any(says_time(value, found) for value in returned) else set()
    return found


def says_time(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression asks a clock, or holds a name that did."""
    for part in ast.walk(node):
        called = part.func if isinstance(part, ast.Call) else None
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "time":
            if CLOCKS.fullmatch(called.attr):
                return True
        elif isinstance(called, ast.Name) and CLOCKS.fullmatch(called.id):
            return True
        if isinstance(part, ast.Name) and part.id in names:
            return True
    return False


def timed_assertions(tree: ast.AST) -> list[int]:
    """Lines that compare what a clock says with a number; two times of one run may be compared with each other."""
    names = timed_names(tree)
    compared = [
        n for a in ast.walk(tree) if isinstance(a, ast.Assert) for n in ast.walk(a) if isinstance(n, ast.Compare)
    ]
    sides = [(node.lineno, [says_time(side, names) for side in (node.left, *node.comparators)]) for node in compared]
    return [line for line, timed in sides if any(timed) and not all(timed)]


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_test_asserts_how_long_something_takes(path: Path) -> None:
    """A busy machine is slow: count work, compare two times of one run, or measure in benchmarks/."""
    assert timed_assertions(ast.parse(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("import time\nbegan = time.monotonic()\nassert time.monotonic() - began < 5", [3]),
        ("def f():\n    return perf_counter() - s\nbest = min(f() for _ in range(5))\nassert best / 200 < 1e-6", [4]),
        ("a = time.process_time()\nb = time.process_time()\nassert b < 40 * a", []),
        ("assert select([], max(0.0, deadline - time.monotonic()))[0]", []),
    ],
)
def test_assertions_on_time_are_found(code: str, lines: list[int]) -> None:
    assert timed_assertions(ast.parse(code)) == lines


def test_shipped_splits_are_their_definitions() -> None:
    assert sorted(split.name for split in definitions()) == split_names()
    for split in definitions():
        assert load_split(split.name) == split, "run python -m mage.splits"
        assert split.has_its_hash
