"""Case-based memory: decisions in similar situations earlier in the trial, with the scores of their episodes.

It follows Memento (Zhou et al. 2025, arXiv 2508.16153) with non-parametric retrieval. A case is a situation,
an action and the score of the whole episode. Before each decision the cases most similar to the current situation are
retrieved, half of them good ones if there are enough, and marked. The model writes no notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from mage.agents.language import LanguageAgent
from mage.agents.methods.similarity import similarities, top_indices
from mage.errors import PlayError
from mage.types import Memory, Observation, Reply
from mage.worlds.openspiel.words.base import signed

NUM_FOUND = 4
"""How many cases are retrieved for a decision."""
_CARRIED = "Before you act you see what you did in similar situations, and the scores of those episodes."
_HEADING = "Similar situations in earlier episodes:"


class Case(NamedTuple):
    """One decision and the score of its episode."""

    situation: str
    action: str
    score: float
    success: bool | None = None
    """Whether the episode was a success; None where the world leaves that to the score."""

    @property
    def mark(self) -> str:
        """Good for a success, bad without one; by the score good above 0, bad below and even at 0."""
        if self.success is not None:
            return "good" if self.success else "bad"
        return "good" if self.score > 0 else "bad" if self.score < 0 else "even"

    @property
    def line(self) -> str:
        """The case as shown to the model."""
        situation = " / ".join(self.situation.split("\n"))
        return f"{situation} You chose {self.action}. Score {signed(self.score)}: {self.mark}."


class CasesAgent(LanguageAgent):
    """Stores every decision of earlier episodes outside the context and retrieves similar ones."""

    method: ClassVar[str] = "cases"
    memories: ClassVar[tuple[Memory, ...]] = (Memory.HISTORY, Memory.NONE)
    _cases: tuple[Case, ...] = ()
    _decided: tuple[tuple[str, str], ...] = ()
    """Situations and actions of the current episode, whose score is not known yet."""

    async def act(self, observation: Observation) -> Reply:
        reply = await super().act(observation)
        if reply.action is not None:
            self._decided = (*self._decided, (observation.text, reply.action))
        return reply

    def force_action(self, observation: Observation, action: str) -> None:
        super().force_action(observation, action)
        self._decided = (*self._decided, (observation.text, action))

    async def reflect(self, outcome: Observation) -> Reply | None:
        """Store the decisions of an episode, now that its score is known; there is no reflection."""
        score = outcome.facts.get("score")
        if not isinstance(score, int | float):
            raise PlayError(f"the cases of episode {outcome.episode + 1} need its score, not {score!r}")
        if self._settings.memory is not Memory.NONE:
            success = outcome.facts.get("success")
            known = success if isinstance(success, bool) else None
            self._cases = (*self._cases, *(Case(*decision, score, known) for decision in self._decided))
        self._decided = ()
        return None

    def _system(self) -> str:
        return self._system_message(carried=_CARRIED)

    def _carried(self) -> tuple[()]:
        """Empty: every episode begins a new stream, and only retrieved cases carry over."""
        return ()

    def _recall(self, observation: Observation) -> None:
        found = retrieve(observation.text, self._cases)
        self._context.recall(_HEADING, [case.line for case in found])


def retrieve(situation: str, cases: Sequence[Case], num: int = NUM_FOUND) -> list[Case]:
    """The most similar cases, best first: half of them good and half not, if there are enough of each.

    Cases of an equal situation come first. Of cases with equal situation, action and mark only the newest counts.

    >>> cases = [Case("a", "x", 1.0), Case("a", "y", -1.0), Case("a", "x", 0.5), Case("b", "x", 1.0)]
    >>> [(case.action, case.score) for case in retrieve("a", cases)]
    [('x', 0.5), ('y', -1.0)]
    """
    newest: dict[tuple[str, str, str], Case] = {}
    for case in reversed(cases):
        newest.setdefault((case.situation, case.action, case.mark), case)
    distinct = list(newest.values())[::-1]
    scores = similarities(situation, [case.situation for case in distinct])
    ranked = sorted(top_indices(scores, len(distinct)), key=lambda place: distinct[place].situation != situation)
    good = [place for place in ranked if distinct[place].mark == "good"]
    others = [place for place in ranked if distinct[place].mark != "good"]
    num_good = min(len(good), max(num // 2, num - len(others)))
    chosen = {*good[:num_good], *others[: num - num_good]}
    return [distinct[place] for place in ranked if place in chosen]
