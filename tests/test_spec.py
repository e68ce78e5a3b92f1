"""Spec strings: what is read prints canonically, what is printed reads back, and garbage is a ConfigError."""

from __future__ import annotations

import re
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.errors import ConfigError
from mage.spec import Spec, Value, call_with, make_spec, parse_spec, show, show_parameters, whole

names = st.text(string.ascii_letters + string.digits + "_-.+'/;{}<>é", min_size=1, max_size=8)
scalars = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), names, st.text(max_size=8)
)


def _specs(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Spec]:
    return st.builds(
        lambda name, args, kwargs: make_spec(name, *args, **kwargs),
        names,
        st.lists(values, max_size=3),
        st.dictionaries(names, values, max_size=3),
    )


def _compound(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    return st.one_of(_specs(values), st.lists(values, max_size=3).map(tuple))


values: st.SearchStrategy[Value] = st.recursive(scalars, _compound, max_leaves=8)


@settings(deadline=None)
@given(_specs(values))
def test_what_is_printed_reads_back_equal(spec: Spec) -> None:
    again = parse_spec(str(spec))
    assert again == spec
    assert str(again) == str(spec)
    assert hash(again) == hash(spec)
    assert (again.name, again.args, again.kwargs) == (spec.name, spec.args, spec.kwargs)


pieces = st.sampled_from(['"', '""', "(", ")", "[", "]", ",", "=", ":", " ", "\n", "a", "rps", "1", "-2.5e3", "true"])


@settings(max_examples=1000, deadline=None)
@given(st.one_of(st.text(), st.lists(pieces, max_size=20).map("".join)))
def test_garbage_is_a_config_error_of_one_line(text: str) -> None:
    try:
        spec = parse_spec(text)
    except ConfigError as error:
        problem = str(error)
    else:
        assert parse_spec(str(spec)) == spec
        problem = ""
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("kuhn_poker", "kuhn_poker"),
        (" kuhn_poker ( ) ", "kuhn_poker"),
        ("mcts:100", "mcts(100)"),
        ("best-response:mcts:100", "best-response(mcts(100))"),
        ("rps(rounds=5, reworded=7,)", "rps(reworded=7,rounds=5)"),
        ("m(uniform, always(bet), weights=[0.3, 0.7])", "m(uniform,always(bet),weights=[0.3,0.7])"),
        ("x(True, false, +3, 007, .5, 1e3, -0.0)", "x(true,false,3,7,0.5,1000.0,-0.0)"),
        ('x("bet")', "x(bet)"),
        ('x("a b", "", "12", "true", "say ""hi""")', 'x("a b","","12","true","say ""hi""")'),
        ("matrix([[1,2],[3,4]],columns=[])", "matrix([[1,2],[3,4]],columns=[])"),
        ("2048", "2048()"),
        ("2048(max_tile=64)", "2048(max_tile=64)"),
        ("f(2048())", "f(2048())"),
        ("goofspiel(imp_info=True,num_cards=4)", "goofspiel(imp_info=true,num_cards=4)"),
        ("misere(game=tic_tac_toe())", "misere(game=tic_tac_toe)"),
    ],
)
def test_canonical_forms(text: str, canonical: str) -> None:
    assert str(parse_spec(text)) == canonical
    assert str(parse_spec(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "ends too early"),
        ("   ", "ends too early"),
        ("f(", "ends too early"),
        ("f(1", "expected ',' or '\\)'"),
        ("f)", "unexpected '\\)'"),
        ("f(1)(2)", "unexpected '\\('"),
        ("f(a b)", "expected ','"),
        ("f(,)", "unexpected ','"),
        ("f(a=1,a=2)", "two values for 'a'"),
        ("f(a=)", "unexpected '\\)'"),
        ('f("a)', "unexpected '\"'"),
        ("[1,2]", "starts with a name"),
        ('"a b"', "starts with a name"),
        ("f(1e999)", "too large"),
        ("f(" + "9" * 5000 + ")", "too large"),
        ("f:" * 30 + "x", "nested too deeply"),
        ("f(" + "[" * 5000, "nested too deeply"),
    ],
)
def test_what_is_wrong_is_said(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_spec(text)


def test_equal_means_printed_alike() -> None:
    assert parse_spec("f(1)") != parse_spec("f(true)")
    assert parse_spec("f(1)") != parse_spec("f(1.0)")
    assert parse_spec("f(1)") != "f(1)"
    assert len({parse_spec("f(a=1,b=2)"), parse_spec("f(b=2,a=1)"), make_spec("f", a=1, b=2)}) == 1
    assert make_spec("always", "bet") == parse_spec("always:bet")
    assert str(make_spec("matrix", name="a b")) == 'matrix(name="a b")'


def test_numbers_that_cannot_be_read_back_are_refused() -> None:
    with pytest.raises(ConfigError, match="finite"):
        make_spec("f", float("nan"))


def _player(game: str, first: Any, *others: Any, seed: int = 0, label: Any = None) -> tuple[Any, ...]:
    return game, first, others, seed, label


def test_values_reach_the_function() -> None:
    assert call_with("opponent", parse_spec("p(1,2,3,seed=4)"), _player, "g") == ("g", 1, (2, 3), 4, None)
    assert call_with("opponent", parse_spec("p(first=1)"), _player, "g") == ("g", 1, (), 0, None)
    assert show_parameters(_player, 1) == "first, others…, seed=0, label"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("f(c=1)", "unknown parameter 'c' in 'f\\(c=1\\)'; opponent 'f' takes a, b=2"),
        ("f(1,2,3)", "too many values in 'f\\(1,2,3\\)'"),
        ("f", "missing 'a' in 'f'"),
        ("f(1,a=2)", "two values for 'a'"),
        ("f(1,game=2)", "unknown parameter 'game'"),
    ],
)
def test_parameters_that_do_not_fit_are_named(text: str, why: str) -> None:
    def function(game: str, a: int, b: int = 2) -> None:
        raise AssertionError("must not be called")

    with pytest.raises(ConfigError, match=why):
        call_with("opponent", parse_spec(text), function, "kuhn_poker")


@pytest.mark.parametrize("value", [0, 6, True, 2.0, "3", parse_spec("abc"), (1,)])
def test_whole_numbers_are_checked(value: Any) -> None:
    problem = f"players must be a whole number from 1 to 5, not {show(value)}"
    with pytest.raises(ConfigError, match=re.escape(problem)):
        whole("players", value, 1, 5)
    assert whole("players", 5, 1, 5) == 5
