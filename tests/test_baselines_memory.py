"""What is brought back for one decision stands in the stream once, and is the first to go when the context is full."""

from __future__ import annotations

import pytest

from mage.agents.byte_format import ByteFormat
from mage.agents.context import Context
from mage.errors import PlayError
from mage.types import Completion
from tests.seated import GluedCodec

CODECS = [ByteFormat(), GluedCodec()]
ITEMS = ("one", "two", "three", "four")
THIRD = "third" + "d" * 300
"""Long, so that what comes before it always fits."""


def completion(text: str) -> Completion:
    tokens = ByteFormat().choice(text)
    return Completion(tokens, (0.0,) * len(tokens), None, 0, False)


def exchange(context: Context, episode: int, text: str, *items: str) -> None:
    """A message, with what is brought back for it, and an answer."""
    context.recall("Found:", items)
    context.add_message(episode, text, 10)
    context.add_answer(episode, completion("ok"))


def messages(context: Context) -> list[str]:
    """The user messages of the current stream."""
    return [text for role, text in ByteFormat().messages(context.prompt) if role == "user"]


@pytest.mark.parametrize("chat_format", CODECS)
def test_it_stands_before_one_message_after_what_was_told(chat_format: ByteFormat) -> None:
    context = Context(chat_format, "S", 10_000)
    context.restart([(0, "a note")])
    exchange(context, 1, "first", "x", "y")
    context.add_to_next_message("Episode 2 is over.\n\n")
    exchange(context, 2, "second", "z")
    context.add_message(2, "third", 10)
    assert messages(context) == [
        "Your notes:\nAfter episode 1: a note\n\nFound:\nx\ny\n\nfirst",
        "Episode 2 is over.\n\nFound:\nz\n\nsecond",
        "third",
    ]
    assert context.recalled == {"x", "y", "z"}
    context.recall("Found:", ["lost"])
    context.restart([])
    context.add_message(3, "fourth", 10)
    assert messages(context) == ["fourth"]
    assert context.recalled == frozenset()


def filled(chat_format: ByteFormat, limit: int) -> Context:
    """Two exchanges of one episode with two items each, and a third with four."""
    context = Context(chat_format, "S", limit)
    context.restart([(0, "n" * 50)])
    exchange(context, 1, "first", "a" * 20, "b" * 20)
    exchange(context, 1, "second", "c" * 20, "d" * 20)
    context.recall("Found:", ITEMS)
    context.add_message(1, THIRD, 10)
    return context


@pytest.mark.parametrize("chat_format", CODECS)
def test_it_is_dropped_for_earlier_decisions_then_by_halves_then_notes_go(chat_format: ByteFormat) -> None:
    whole = len(filled(chat_format, 10_000).prompt) + 10
    note = f"Your notes:\nAfter episode 1: {'n' * 50}\n\n"
    earlier = [f"{note}first", "second"]
    last = ("first", "second", THIRD)
    answers = chat_format.choice("ok") * 2 + chat_format.close * 2
    least = len(chat_format.opening("S")) + sum(len(chat_format.user(text)) for text in last) + len(answers) + 10
    contexts = {limit: filled(chat_format, limit) for limit in range(whole, least - 1, -1)}
    for limit, context in contexts.items():
        assert len(context.prompt) + 10 <= limit
        assert context.overflows == ([1] if limit < whole else [])
    assert list(dict.fromkeys(tuple(messages(context)) for context in contexts.values())) == [
        (f"{note}Found:\n{'a' * 20}\n{'b' * 20}\n\nfirst", f"Found:\n{'c' * 20}\n{'d' * 20}\n\nsecond", third(4)),
        (*earlier, third(4)),
        (*earlier, third(2)),
        (*earlier, third(1)),
        (*earlier, THIRD),
        last,
    ]
    with pytest.raises(PlayError, match=f"a context of {least - 1} tokens is too small for episode 2 alone"):
        filled(chat_format, least - 1)


def third(num: int) -> str:
    return "\n".join(["Found:", *ITEMS[:num]]) + f"\n\n{THIRD}"


@pytest.mark.parametrize("chat_format", CODECS)
def test_a_dropped_item_can_be_brought_back_again(chat_format: ByteFormat) -> None:
    whole = len(filled(chat_format, 10_000).prompt) + 10
    context = filled(chat_format, whole - 1)
    assert context.recalled == set(ITEMS)
    assert filled(chat_format, whole).recalled == {*ITEMS, *(letter * 20 for letter in "abcd")}


@pytest.mark.parametrize("chat_format", CODECS)
def test_it_is_dropped_with_its_episode_and_outlives_what_was_told_before_it(chat_format: ByteFormat) -> None:
    def played(limit: int) -> list[str]:
        context = Context(chat_format, "S", limit)
        exchange(context, 0, "long ago " * 20, "x" * 20)
        context.add_to_next_message("Episode 1 is over.\n\n")
        exchange(context, 1, "second", "y" * 5)
        context.add_message(1, "third", 10)
        return messages(context)

    assert len(played(10_000)) == 3
    assert played(260) == [f"Found:\n{'y' * 5}\n\nsecond", "third"]
