"""The chat format of a model's own chat template, in pieces that are encoded once and only appended.

A conversation is never rendered twice. One probe conversation of sentinel words is rendered when the chat format is
built, and the text between the sentinels is the glue of every later conversation:

    opening   the text before and after the system text
    user      the text before and after a user message, and the text that opens the answer
    end       the special token that ends an answer: sampled, or appended where a reply was truncated
    close     the text between `end` and the next user message, such as a newline

Answers stay in the stream as they were sampled, thoughts included, even where the template would delete them from the
history; `Context` strips them if configured. Other text is encoded so that control tokens in it stay plain text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from mage.agents.parsing import is_tag
from mage.agents.template_limit import limited_template
from mage.errors import ConfigError, library_errors

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Ids = tuple[int, ...]

_SYSTEM, _FIRST, _ANSWER, _SECOND, _LAST = "Qsystemq", "Qfirstq", "Qanswerq", "Qsecondq", "Qlastq"
_OPENINGS = ("a", "The", "rock", "1", "<think>", "<action>", "(")
"""Typical first words of answers: none of these may merge with the tokens that open the answer."""


class Glue(NamedTuple):
    """The template's text between two messages: text, ids from the first special token to the last, text."""

    head: str
    ids: Ids
    tail: str


class TemplateFormat:
    """Encodes by the chat template of one tokenizer; `options` go to the template, such as `enable_thinking=False`."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, **options: Any) -> None:
        self._tokenizer = tokenizer
        self._special = {t.content: i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
        self._tags = frozenset(i for content, i in self._special.items() if is_tag(content))
        self._hidden = frozenset(self._special.values()) - self._tags
        self._plain = lru_cache(maxsize=65536)(self._encode_plain)
        self._user = lru_cache(maxsize=65536)(self._encode_user)
        self._choice = lru_cache(maxsize=65536)(self._encode_choice)
        self._decoded = lru_cache(maxsize=65536)(self._decode)
        seams = _Seams(tokenizer, options)
        end = self._first_special(seams.after_answer)
        if end is None:
            _refuse("it puts no special token after an answer, so where one ends cannot be sampled")
        self.end: int = self._special[end]
        after_end = seams.after_answer[len(end) :]
        opener = self._shared_opener(seams.after_system, after_end)
        self.close: Ids = self._encode(after_end.removesuffix(opener))
        self._before_system = self._glue(seams.before_system)
        self._after_system = self._glue(seams.after_system.removesuffix(opener))
        self._opener = self._glue(opener)
        self._opens_answer = self._glue(seams.before_answer)
        self._check(seams)

    def opening(self, system: str) -> Ids:
        before, after = self._before_system, self._after_system
        text = self._plain(before.tail + system + after.head)
        return (*self._plain(before.head), *before.ids, *text, *after.ids, *self._plain(after.tail))

    def user(self, text: str) -> Ids:
        return self._user(text)

    def choice(self, action: str) -> Ids:
        return self._choice(action)

    def answer(self, text: str) -> Ids:
        return (*self._plain(text), self.end)

    def decode(self, tokens: Sequence[int]) -> str:
        return self._decoded(tuple(tokens[:-1] if tokens and tokens[-1] == self.end else tokens))

    def _decode(self, ids: Ids) -> str:
        """The text of tokens without control tokens, but with tags that are control tokens: the parser needs them."""
        shown = [i for i in ids if i not in self._hidden] if self._tags else list(ids)
        text = self._tokenizer.decode(shown, skip_special_tokens=not self._tags, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text

    def _encode_user(self, text: str) -> Ids:
        opener, answer = self._opener, self._opens_answer
        said = self._plain(opener.tail + text + answer.head)
        return (*self._plain(opener.head), *opener.ids, *said, *answer.ids, *self._plain(answer.tail))

    def _encode_choice(self, action: str) -> Ids:
        ids = self.answer(action)
        if self.decode(ids) != action:
            raise ConfigError(
                f"this model's tokenizer has no exact words for the action {action!r} (it reads back as "
                f"{self.decode(ids)!r}); use another model or other words for the game"
            )
        return ids

    def _encode(self, text: str) -> Ids:
        """Encode with control tokens as such. For the template's own text only."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False)) if text else ()

    def _encode_plain(self, text: str) -> Ids:
        """Encode with control tokens as plain text."""
        if not text:
            return ()
        whole = text.encode(errors="replace").decode()  # lone surrogates cannot be encoded
        return tuple(self._tokenizer.encode(whole, add_special_tokens=False, split_special_tokens=True))

    def _glue(self, text: str) -> Glue:
        longest_first = sorted(self._special, key=len, reverse=True)
        found = list(re.finditer("|".join(map(re.escape, longest_first)), text)) if longest_first else []
        if not found:
            return Glue(text, (), "")
        start, stop = found[0].start(), found[-1].end()
        return Glue(text[:start], self._encode(text[start:stop]), text[stop:])

    def _first_special(self, text: str) -> str | None:
        """The longest special token that `text` begins with."""
        return max((s for s in self._special if text.startswith(s)), key=len, default=None)

    def _shared_opener(self, after_system: str, after_end: str) -> str:
        """The text that opens every user message: the longest common suffix that begins with a special token, or ''."""
        for start in range(len(after_end)):
            opener = after_end[start:]
            if after_system.endswith(opener) and self._first_special(opener) is not None:
                return opener
        return ""

    def _check(self, seams: _Seams) -> None:
        if not self._opens_answer.ids:
            _refuse("it puts no special token between a message and its answer, so they could merge")
        tail = self._opens_answer.tail
        for word in _OPENINGS:
            alone = self._plain(word)
            if self._plain(tail + word)[-len(alone) :] != alone:
                _refuse(f"an answer such as {word!r} merges with {tail!r} before it")
        asked = self.opening(_SYSTEM) + self.user(_FIRST)
        asked_again = (self.end, *self.close, *self.user(_SECOND))
        if asked != self._encode(seams.asked) or asked_again != self._encode(seams.asked_again):
            _refuse("its pieces do not add up to the conversation it renders")


class _Seams:
    """The template's text between the messages of the probe conversation."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, options: Mapping[str, Any]) -> None:
        if tokenizer.chat_template is None:
            _refuse("there is none")
        told = [("system", _SYSTEM), ("user", _FIRST), ("assistant", _ANSWER), ("user", _SECOND)]
        messages: list[dict[str, Any]] = [{"role": role, "content": text} for role, text in told]
        history = _render(tokenizer, [*messages, {"role": "assistant", "content": _LAST}], False, options)
        self.before_system, self.after_system, _, self.after_answer, _, _ = _split(
            history, _SYSTEM, _FIRST, _ANSWER, _SECOND, _LAST
        )
        # The generation prompt is used and not the history: some templates add to it, or delete it later.
        self.asked = _render(tokenizer, messages[:2], True, options)
        self.before_answer = _split(self.asked, _SYSTEM, _FIRST)[-1]
        self.asked_again = self.after_answer + _SECOND + self.before_answer
        """The text from the end of an answer to the start of the next one."""


def _split(text: str, *sentinels: str) -> list[str]:
    """The pieces of `text` around sentinels, which must occur once each and in order."""
    pieces = re.split("|".join(sentinels), text)
    if re.findall("|".join(sentinels), text) != list(sentinels):
        _refuse("it does not show the system, user and assistant messages once each and in order")
    return pieces


def _render(
    tokenizer: PreTrainedTokenizerFast, messages: list[dict[str, Any]], ask: bool, options: Mapping[str, Any]
) -> str:
    with library_errors(lambda why: _refusal(f"on a conversation with a system message, {why}")):
        with limited_template():
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask, **options)
        assert isinstance(text, str)
        return text


def _refuse(why: str) -> NoReturn:
    raise _refusal(why)


def _refusal(why: str) -> ConfigError:
    return ConfigError(f"this model's chat template cannot be used: {why}")
