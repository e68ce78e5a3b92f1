"""A player in a process of its own, so that a long search holds up nothing and can be ended.

`python -m mage.view.play.seat_process` makes the player that the first line of its input names, and answers each line
with one: first who plays, then a reply to each question. It ends with its input, even in the middle of a search.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from queue import Queue
from threading import Thread

import msgspec

from mage.errors import MageError, PlayError
from mage.opponents.agent_seat import seat_agent
from mage.plugins import import_plugins, named_plugins
from mage.protocols import Agent
from mage.types import AgentInfo, Observation, Phase, Reply, Task
from mage.worlds.registry import load_world

_MAX_LINE = 16 * 2**20


class SeatQuery(msgspec.Struct, frozen=True):
    """The player to make: a spec for the seat of a task."""

    task: Task
    spec: str
    plugins: tuple[str, ...]


class Question(msgspec.Struct, frozen=True):
    """What the player is asked: to act or to reflect."""

    phase: Phase
    seen: Observation


class SeatAnswer(msgspec.Struct, frozen=True):
    """The answer to a question, or to the query; an error is one line."""

    error: str | None = None
    info: AgentInfo | None = None
    reply: Reply | None = None


class SeatProcess:
    """The agent of a seat whose player is in another process. It has no model, so it has no token streams."""

    def __init__(self, process: Process, info: AgentInfo) -> None:
        self.info = info
        self._process = process

    async def act(self, observation: Observation) -> Reply:
        reply = (await _ask(self._process, Question(Phase.PLAY, observation))).reply
        assert reply is not None
        return reply

    async def reflect(self, outcome: Observation) -> Reply | None:
        return (await _ask(self._process, Question(Phase.REFLECT, outcome))).reply

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()

    async def close(self) -> None:
        """End the process, whatever it does."""
        await _end(self._process)


async def start_seat_process(task: Task, spec: str) -> SeatProcess:
    """Start the player of a spec in the task's seat; solvers are made here, so it may take long."""
    command = (sys.executable, "-m", __name__)
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=_MAX_LINE)
    info: AgentInfo | None = None
    try:
        info = (await _ask(process, SeatQuery(task, spec, tuple(named_plugins())))).info
    finally:
        if info is None:
            await _end(process)
    assert info is not None
    return SeatProcess(process, info)


async def _ask(process: Process, question: SeatQuery | Question) -> SeatAnswer:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(msgspec.json.encode(question) + b"\n")
    line = await process.stdout.readline()
    if not line:
        raise PlayError(f"the process of the player ended, with code {await process.wait()}")
    answer = msgspec.json.decode(line, type=SeatAnswer)
    if answer.error is not None:
        raise PlayError(answer.error)
    return answer


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def _make(query: SeatQuery) -> Agent:
    import_plugins(query.plugins)
    return seat_agent(load_world(query.task.world), query.spec, query.task)


async def _answered(agent: Agent, question: Question) -> SeatAnswer:
    ask = agent.act if question.phase is Phase.PLAY else agent.reflect
    return SeatAnswer(reply=await ask(question.seen))


async def _answer(lines: Queue[bytes]) -> None:
    """Answer the lines in turn. An error of mage is an answer; any other ends the process."""
    agent: Agent | None = None
    while True:
        line = await asyncio.to_thread(lines.get)
        try:
            if agent is None:
                agent = _make(msgspec.json.decode(line, type=SeatQuery))
                answer = SeatAnswer(info=agent.info)
            else:
                answer = await _answered(agent, msgspec.json.decode(line, type=Question))
        except MageError as error:
            answer = SeatAnswer(error=" ".join(str(error).split()))
        _say(answer)


def _say(answer: SeatAnswer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


def _play(lines: Queue[bytes]) -> None:
    try:
        asyncio.run(_answer(lines))
    finally:
        os._exit(1)


def main() -> None:
    """Read lines in this thread and answer them in another: the end of the input is noticed during a search."""
    os.nice(5)  # pages have priority
    lines: Queue[bytes] = Queue()
    Thread(target=_play, args=(lines,), daemon=True).start()
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
