"""Token streams: they only grow, nothing is encoded twice, and a full context loses the oldest episodes first."""

from __future__ import annotations

from collections import Counter

import pytest

from mage.agents.byte_format import ByteFormat
from mage.agents.context import Context
from mage.errors import PlayError
from mage.types import Completion, Thoughts
from tests.seated import GluedCodec

CODEC = ByteFormat()


class CountingCodec(ByteFormat):
    """Counts how often each text is encoded."""

    def __init__(self) -> None:
        self.encoded: Counter[str] = Counter()

    def user(self, text: str) -> tuple[int, ...]:
        self.encoded[text] += 1
        return super().user(text)


def reply(text: str, truncated: bool = False) -> Completion:
    tokens = CODEC.choice(text)[: -1 if truncated else None]
    return Completion(tokens, (0.0,) * len(tokens), None, 0, truncated)


def exchange(context: Context, episode: int, said: str, answered: str, room: int = 10) -> tuple[int, int]:
    """One message with its answer; returns where the answer starts."""
    context.add_message(episode, said, room)
    place = context.stream, len(context.prompt)
    context.add_answer(episode, reply(answered))
    return place


def shown(context: Context) -> list[str]:
    return [CODEC.transcript(stream) for stream in context.streams()]


def test_a_stream_is_its_pieces_with_glue_between_them() -> None:
    chat_format = GluedCodec()
    context = Context(chat_format, "S", 1000)
    exchange(context, 0, "a", "x")
    exchange(context, 0, "", "y")
    expected = (
        *chat_format.opening("S"),
        *(*chat_format.user("a"), *chat_format.choice("x"), *chat_format.close),
        *(*chat_format.user(""), *chat_format.choice("y")),
    )
    assert context.streams() == (expected,)


def test_a_reply_cut_short_gets_its_end_as_context() -> None:
    context = Context(CODEC, "S", 1000)
    context.add_message(0, "a", 10)
    start = len(context.prompt)
    context.add_answer(0, reply("long", truncated=True))
    assert context.prompt[start:] == [*b"long", CODEC.end]
    exchange(context, 0, "b", "y")
    assert shown(context) == ["<|system|>\nS\n<|user|>\na\n<|assistant|>\nlong\n<|user|>\nb\n<|assistant|>\ny"]


def test_what_was_told_comes_before_the_next_message() -> None:
    context = Context(CODEC, "S", 1000)
    exchange(context, 0, "a", "x")
    context.add_to_next_message("0 over. ")
    context.add_to_next_message("1 over. ")
    exchange(context, 2, "c", "z")
    assert shown(context)[0].endswith("\n<|user|>\n0 over. 1 over. c\n<|assistant|>\nz")


def test_forgetting_begins_a_stream_with_the_notes_alone() -> None:
    context = Context(CODEC, "S", 1000)
    exchange(context, 0, "a", "x")
    context.add_to_next_message("never said")
    context.restart([(0, "they bluff")])
    exchange(context, 1, "b", "y")
    first, second = shown(context)
    assert first == "<|system|>\nS\n<|user|>\na\n<|assistant|>\nx"
    assert second == "<|system|>\nS\n<|user|>\nYour notes:\nAfter episode 1: they bluff\n\nb\n<|assistant|>\ny"


def test_forgetting_twice_leaves_no_empty_stream() -> None:
    context = Context(CODEC, "S", 1000)
    context.restart(())
    assert (context.stream, context.streams()) == (0, ())
    exchange(context, 0, "a", "x")
    context.restart(())
    context.restart(())
    assert exchange(context, 1, "b", "y")[0] == 1
    assert len(context.streams()) == 2


def test_nothing_is_encoded_twice() -> None:
    chat_format = CountingCodec()
    context = Context(chat_format, "S", 10_000)
    for turn in range(20):
        exchange(context, turn // 5, f"message {turn}", "x")
    assert len(chat_format.encoded) == chat_format.encoded.total() == 20


def test_a_full_context_drops_the_oldest_whole_episodes() -> None:
    # The opening has 2 ids, an exchange of these 12 (10 asked, 2 answered): 6 exchanges make 74.
    chat_format = CountingCodec()
    context = Context(chat_format, "S", 80)
    for turn in range(6):
        exchange(context, turn // 2, f"message{turn}", "x", room=6)
    assert (context.stream, context.overflows) == (0, [])
    before = context.streams()[0]
    assert exchange(context, 3, "message6", "x", room=6) == (1, 2 + 2 * 12 + 10)
    assert context.overflows == [3]
    assert context.streams()[0] == before
    assert [f"message{turn}" in shown(context)[1] for turn in range(7)] == [False] * 4 + [True] * 3
    assert [chat_format.encoded[f"message{turn}"] for turn in (5, 6)] == [1, 1], (
        "only the new first message is encoded anew"
    )


def test_an_outcome_leaves_with_its_episode() -> None:
    context = Context(CODEC, "S", 200)
    for episode in range(4):
        exchange(context, episode, f"Episode {episode}: {'.' * 20}", "x")
        context.add_to_next_message(f"Episode {episode} is over. ")
    assert context.overflows == [3]
    assert "Episode 1 is over" not in shown(context)[1]
    assert "Episode 2:" in shown(context)[1]
    assert "Episode 2 is over" in shown(context)[1]


def test_reflections_stay_as_notes_when_their_episode_leaves() -> None:
    context = Context(CODEC, "S", 1100)
    for episode in range(4):
        exchange(context, episode, f"Play {episode}{'.' * 200}", "x")
        exchange(context, episode, f"Reflect {episode}", f"note {episode}")
        context.notes.append((episode, f"note {episode}"))
    assert context.overflows == []
    exchange(context, 4, f"Play 4{'.' * 200}", "x")
    assert context.overflows == [4]
    newest = shown(context)[1]
    lines = "".join(f"After episode {episode + 1}: note {episode}\n" for episode in range(3))
    assert newest.startswith(f"<|system|>\nS\n<|user|>\nYour notes:\n{lines}\nPlay 3.")
    assert newest.count("note 3") == 1, "the note of an episode that stays is not repeated"
    assert context.notes == [(episode, f"note {episode}") for episode in range(4)]


def test_notes_leave_last_the_older_half_first_and_for_good() -> None:
    notes = [(episode, f"note {episode}{'.' * 20}") for episode in range(4)]
    context = Context(CODEC, "S", 150)
    context.notes = list(notes)
    context.restart(context.notes)
    assert exchange(context, 4, "Play", "x") == (0, len(context.prompt) - 2), "an unused stream is replaced"
    assert context.overflows == [4]
    assert [f"note {e}" in shown(context)[0] for e in range(4)] == [False, False, True, True]
    assert context.notes == notes[2:]


def test_an_episode_that_overflows_twice_is_listed_once() -> None:
    context = Context(CODEC, "S", 150)
    context.notes = [(episode, "." * 20) for episode in range(4)]
    context.restart(context.notes)
    exchange(context, 4, "Play", "x")
    exchange(context, 4, "y" * 40, "x")
    assert (len(context.streams()), context.overflows) == (2, [4])
    assert len(context.notes) == 1


def test_a_context_too_small_for_one_episode_says_so() -> None:
    context = Context(CODEC, "S", 50)
    context.notes = [(0, "a note")]
    context.restart(context.notes)
    exchange(context, 1, "Play", "x")
    with pytest.raises(PlayError, match=r"context of 50 tokens is too small for episode 2 .* raise agent\.context"):
        exchange(context, 1, "y" * 50, "x")


@pytest.mark.parametrize("limit", [200, 400, 1000])
def test_a_long_trial_in_a_small_context_stays_linear(limit: int) -> None:
    context = Context(CODEC, "S", limit)
    written = 0
    for episode in range(60):
        for turn in range(3):
            stream, start = exchange(context, episode, f"Episode {episode}, turn {turn}.", "rock")
            assert start + 10 <= limit
            assert context.streams()[stream][start : start + 5] == CODEC.choice("rock")
            written += len(CODEC.user(f"Episode {episode}, turn {turn}.")) + 5
    assert len(context.overflows) > 3
    assert max(map(len, context.streams())) <= limit
    assert sum(map(len, context.streams())) < 3 * written


THOUGHT = "<think>hm</think> x"


def stripping(limit: int = 1000, chat_format: ByteFormat = CODEC) -> Context:
    return Context(chat_format, "S", limit, Thoughts.STRIP)


def test_a_thought_is_gone_from_the_next_message_on_and_stays_where_it_was_sampled() -> None:
    context = stripping(chat_format=GluedCodec())
    places = [exchange(context, 0, f"m{turn}", THOUGHT) for turn in range(3)]
    assert [stream for stream, _ in places] == [0, 1, 2]
    head, told = "<|system|>\nS", [f"\n<|user|>\nm{turn}\n<|assistant|>\n" for turn in range(3)]
    assert [text.replace("x\n\n", "x\n") for text in shown(context)] == [
        f"{head}{told[0]}{THOUGHT}",
        f"{head}{told[0]}x{told[1]}{THOUGHT}",
        f"{head}{told[0]}x{told[1]}x{told[2]}{THOUGHT}",
    ]
    for stream, start in places:
        assert context.streams()[stream][start:] == CODEC.choice(THOUGHT), "as sampled, where it was sampled"


def test_answers_without_a_thought_begin_no_stream() -> None:
    context = stripping()
    for turn, answer in enumerate(["x", " y ", THOUGHT, "z", ""]):
        exchange(context, 0, f"m{turn}", answer)
    assert len(context.streams()) == 2
    kept = Context(CODEC, "S", 1000)
    for turn, answer in enumerate(["x", " y ", "x", "z", ""]):
        exchange(kept, 0, f"m{turn}", answer)
    assert context.streams()[1] == kept.streams()[0]


def test_choices_are_no_thoughts() -> None:
    context = stripping()
    for turn in range(2):
        context.add_message(0, f"m{turn}", 30)
        tokens = CODEC.choice("<think>")
        context.add_answer(
            0, Completion(tokens, (0.0,) * len(tokens), tuple((t, 0) for t in tokens), 0, truncated=False)
        )
    assert len(context.streams()) == 1


@pytest.mark.parametrize(("answer", "left"), [("a <think> b", "a"), ("<think>a", ""), ("a</think>b", "b")])
def test_thoughts_that_were_cut_off_or_not_opened_are_stripped(answer: str, left: str) -> None:
    context = stripping()
    context.add_message(0, "m", 10)
    context.add_answer(0, reply(answer, truncated=True))
    exchange(context, 0, "n", "x")
    assert shown(context)[1] == f"<|system|>\nS\n<|user|>\nm\n<|assistant|>\n{left}\n<|user|>\nn\n<|assistant|>\nx"


class ThinkingCodec(ByteFormat):
    """Like templates that open a thought before each answer."""

    def user(self, text: str) -> tuple[int, ...]:
        return (*super().user(text), *b"<think>\n")


@pytest.mark.parametrize(("answer", "left"), [("hm</think> x", "x"), ("hm", "")])
def test_a_thought_that_the_template_opens_is_closed(answer: str, left: str) -> None:
    context = stripping(chat_format=ThinkingCodec())
    exchange(context, 0, "m", answer)
    exchange(context, 0, "n", answer)
    first, second = shown(context)
    assert first.endswith(f"<think>\n{answer}")
    expected = f"m\n<|assistant|>\n<think>\n\n</think>\n\n{left}\n<|user|>\nn\n<|assistant|>\n<think>\n{answer}"
    assert second.endswith(expected)


def test_a_full_context_drops_thoughts_before_it_drops_episodes() -> None:
    def streams_of(limit: int) -> tuple[tuple[int, ...], ...]:
        context = stripping(limit)
        exchange(context, 0, "m", "<think>" + "." * 50 + "</think>x", room=80)
        exchange(context, 0, "n", "y", room=80)
        assert context.overflows == []
        return context.streams()

    prompt = len("<S<m<xe<n<")
    assert len(streams_of(prompt + 80)) == 2, "the thought needs no room in the second prompt"


def test_an_overflow_leaves_no_stream_that_nobody_sampled_in() -> None:
    context = stripping(200)
    places = [exchange(context, episode, f"message {episode}", f"{THOUGHT} {episode}", 40) for episode in range(12)]
    assert [stream for stream, _ in places] == list(range(len(context.streams()))) == list(range(12))
    assert context.overflows
    assert max(map(len, context.streams())) <= 200
    for (stream, start), text in zip(places, shown(context), strict=True):
        assert context.streams()[stream][start:] == CODEC.choice(f"{THOUGHT} {stream}")
        assert text.count("<think>") == 1, "only the newest answer has its thought"


@pytest.mark.parametrize("note", ["<think>hm</think>their note", "their note"])
def test_another_note_is_reworded_without_its_thought_in_one_new_stream(note: str) -> None:
    context = stripping()
    exchange(context, 0, "m", THOUGHT)
    exchange(context, 0, "reflect", "<think>hm</think>my note")
    context.replace_answer(reply(note), "lost")
    assert exchange(context, 1, "n", "y")[0] == 2
    told = "m\n<|assistant|>\nx\n<|user|>\nreflect\n<|assistant|>\n"
    assert shown(context)[1].endswith(f"{told}<think>hm</think>my note")
    assert shown(context)[2].endswith(f"{told}their note\n<|user|>\nn\n<|assistant|>\ny")


def test_without_any_note_the_history_before_it_stays_stripped() -> None:
    context = stripping()
    exchange(context, 0, "m", THOUGHT)
    exchange(context, 0, "reflect", "<think>hm</think>my note")
    context.replace_answer(None, "lost. ")
    exchange(context, 1, "n", "y")
    assert shown(context)[2].endswith("m\n<|assistant|>\nx\n<|user|>\nlost. n\n<|assistant|>\ny")
