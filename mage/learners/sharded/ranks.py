"""The processes of a sharded learner: how they start, find each other, exchange bytes and end.

Rank 0 is the process of the run. The others are started by it, or all by `torchrun`. They share a process group: gloo
on CPUs, NCCL on GPUs, where gloo carries what is not on a GPU. Messages go through a group of their own, because
between two of them a rank may wait for hours.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from mage.learners.load_weights import RankError
from mage.learners.sharded.cards import check_ranks, is_torchrun

ROOT = 0
_HOST = "127.0.0.1"
_WORKER = "mage.learners.sharded.worker"
INTERFACE = "GLOO_SOCKET_IFNAME"
"""The variable that names the network interface of gloo."""
_JOIN_S, _CONNECT_S, _IDLE, _END_S = 300.0, 120.0, timedelta(days=30), 10.0
"""Time to start and find each other; to connect, once all have come; time between commands; time to end."""
_PASS = timedelta(minutes=10)
"""Time that a rank waits for another within a command: NCCL's own, and shorter than gloo's."""
_DEATH_S = 3.0
"""Time in which a process that is killed has ended: its connections are closed before."""
_FAILED = "failed"
"""Key of the store: why a rank ends."""


class Ranks:
    """One process's place among the ranks."""

    def __init__(
        self, store: Store, rank: int, size: int, device: str, workers: Sequence[subprocess.Popen[bytes]] = ()
    ) -> None:
        self.rank, self.size = rank, size
        self._store = store
        self._workers = workers
        try:
            self.device = _use_device(device, rank)
            self._control = self._connect_watched() if rank == ROOT else self._connect()
            self.mesh: DeviceMesh = init_device_mesh(device, (size,))
        except RuntimeError as error:
            self._give_up(error)

    @property
    def workers(self) -> tuple[int, ...]:
        """The process ids of the ranks that this process has started."""
        return tuple(worker.pid for worker in self._workers)

    @property
    def group(self) -> dist.ProcessGroup:
        """The process group of messages, in which ranks wait for each other as long as it takes."""
        return self._control

    def _connect(self) -> dist.ProcessGroup:
        """Connect all ranks with all; returns the group for messages."""
        backend = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
        own = self._store.clone()  # type: ignore[attr-defined]  # while it waits for a key, it answers nothing else
        group = PrefixStore("group", own)
        dist.init_process_group(backend, store=group, rank=self.rank, world_size=self.size, timeout=_PASS)
        control: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=_IDLE)
        return control

    def _connect_watched(self) -> dist.ProcessGroup:
        """Connect in a thread, because gloo waits without a limit for a rank that has ended, deaf to signals."""
        found: list[dist.ProcessGroup | Exception] = []

        def connect() -> None:
            try:
                found.append(self._connect())
            except (RuntimeError, ValueError) as error:
                found.append(error)

        attempt = threading.Thread(target=connect, daemon=True, name="connect ranks")
        attempt.start()
        until = time.monotonic() + _CONNECT_S
        while attempt.is_alive():
            attempt.join(0.05)
            if (why := self.failure()) is not None:
                raise RankError(why)
            if time.monotonic() > until:
                raise RankError(_unreachable(RuntimeError(f"not within {_CONNECT_S:.0f} s")))
        (group,) = found
        if isinstance(group, Exception):
            raise group
        return group

    def _give_up(self, error: RuntimeError) -> NoReturn:
        """End where the ranks do not reach each other: by an error on rank 0, which others tell theirs."""
        if self.rank == ROOT:
            raise RankError(self.failure(5.0) or _unreachable(error)) from None
        self._fail(_unreachable(error))
        os._exit(1)

    def broadcast(self, content: bytes = b"") -> bytes:
        """Bytes of rank 0, on all ranks."""
        length = torch.tensor([len(content)])
        dist.broadcast(length, ROOT, group=self._control)
        received = torch.frombuffer(bytearray(content) or bytearray(1), dtype=torch.uint8).clone()
        if self.rank != ROOT:
            received = torch.empty(max(1, int(length)), dtype=torch.uint8)
        dist.broadcast(received, ROOT, group=self._control)
        return received.numpy().tobytes()[: int(length)]

    def gather(self, content: bytes) -> list[bytes]:
        """The bytes of every rank, on all ranks."""
        lengths = [torch.zeros(1, dtype=torch.long) for _ in range(self.size)]
        dist.all_gather(lengths, torch.tensor([len(content)]))
        longest = max(1, *map(int, lengths))
        own = torch.zeros(longest, dtype=torch.uint8)
        own[: len(content)] = torch.frombuffer(bytearray(content) or bytearray(1), dtype=torch.uint8)[: len(content)]
        found = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(found, own)
        return [each.numpy().tobytes()[: int(length)] for each, length in zip(found, lengths, strict=True)]

    def __enter__(self) -> None:
        """A context whose errors rank 0 is told of."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            why = " ".join(str(error).split()) or type(error).__name__
            self._fail(why)
            os._exit(1)

    def failure(self, wait_s: float = 0.0) -> str | None:
        """Why a rank has ended, in one line; None where all run."""
        if not comes_true(lambda: bool(self._ended()) or self._store.check([_FAILED]), wait_s):
            return None
        # One that is killed says nothing, and others say that they cannot reach it, perhaps before it has ended.
        comes_true(lambda: bool(self._killed()) or len(self._ended()) == len(self._workers), _DEATH_S)
        if not (killed := self._killed()) and self._store.check([_FAILED]):
            return str(self._store.get(_FAILED).decode())
        rank, code = next(iter((killed or self._ended()).items()))
        return f"rank {rank} of {self.size} {_how_it_ended(code)}"

    def _fail(self, why: str) -> None:
        """Tell rank 0 why this one ends; the first to fail is the cause: the others cannot reach it any more."""
        self._store.compare_set(_FAILED, "", f"rank {self.rank} of {self.size}: {why}")

    def _ended(self) -> dict[int, int]:
        """The exit codes of the ranks that have ended, of those that this process has started."""
        return {rank: code for rank, worker in enumerate(self._workers, 1) if (code := worker.poll()) is not None}

    def _killed(self) -> dict[int, int]:
        return {rank: code for rank, code in self._ended().items() if code < 0}

    def close(self, end: bytes | None) -> None:
        """End the other ranks: by the message `end`, or None where they are not in step with rank 0 any more."""
        with suppress(RuntimeError):  # one that has just ended
            if end is not None and self.failure() is None:
                self.broadcast(end)
        end_processes(self._workers)
        dist.destroy_process_group()


def spawn(size: int, device: str) -> Ranks:
    """Start the other ranks on this machine; returns rank 0."""
    check_ranks(size, device)
    store = TCPStore(_HOST, 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=_JOIN_S))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
    # In a session of their own, an interrupt from the keyboard goes to rank 0 alone, which ends them.
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", _WORKER, str(store.port), str(rank), str(size), device],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        for rank in range(1, size)
    ]
    with ExitStack() as undo:
        undo.callback(_forget_group)
        undo.callback(end_processes, workers)
        _await_all(store, workers)
        made = Ranks(store, ROOT, size, device, workers)
        undo.pop_all()
    return made


def join(port: int, rank: int, size: int, device: str) -> Ranks:
    """Meet the other ranks, as one that rank 0 has started; it ends when rank 0 does."""
    _end_with_rank_0()
    _use_device(device, rank)  # before rank 0 waits for this one in a call that no end of it would wake
    store = TCPStore(_HOST, port, is_master=False, timeout=timedelta(seconds=_JOIN_S))
    store.set(_here(rank), "")
    return Ranks(store, rank, size, device)


def end_processes(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Close the pipes that keep the processes alive, and end those that do not end by themselves."""
    for worker in workers:
        if worker.stdin is not None:
            worker.stdin.close()
    until = time.monotonic() + _END_S
    for worker in workers:
        try:
            worker.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _await_all(store: Store, workers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until all workers have found the store; raise where one ends instead."""
    waiting = list(enumerate(workers, 1))
    until = time.monotonic() + _JOIN_S
    while waiting:
        rank, worker = waiting[0]
        if worker.poll() is not None:
            raise RankError(f"rank {rank} {_how_it_ended(worker.returncode)} before it began")
        if time.monotonic() > until:
            raise RankError(f"rank {rank} did not begin within {_JOIN_S:.0f} s")
        if store.check([_here(rank)]):
            waiting.pop(0)
        else:
            time.sleep(0.02)


def comes_true(condition: Callable[[], bool], wait_s: float) -> bool:
    """Whether a condition holds, now or within so many seconds."""
    until = time.monotonic() + wait_s
    while not (is_true := condition()) and time.monotonic() < until:
        time.sleep(0.05)
    return is_true


def _forget_group() -> None:
    """Let this process make a group again, also where a thread still waits for the ranks of this one."""
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.distributed_c10d._world.group_count = 0  # groups have numbers for names, which new ranks begin with 0


def _unreachable(error: Exception) -> str:
    return f"the ranks do not reach each other ({first_line(error)}); set {INTERFACE} on each machine to its interface"


def first_line(error: Exception) -> str:
    """What an error says first, or its kind."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _here(rank: int) -> str:
    return f"here/{rank}"


def _use_device(kind: str, rank: int) -> torch.device:
    """The device of a rank, which is its process's own from now on."""
    if kind != "cuda":
        return torch.device(kind)
    card = torch.device(kind, int(os.environ["LOCAL_RANK"]) if is_torchrun() else rank)
    torch.cuda.set_device(card)
    return card


def _end_with_rank_0() -> None:
    """End this process when rank 0 ends: then the pipe between them closes, whatever this process is waiting for."""

    def watch() -> None:
        os.read(0, 1)  # not by sys.stdin, whose lock would be held when Python shuts down
        os._exit(0)

    threading.Thread(target=watch, daemon=True, name="watch rank 0").start()


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by signal {-code} ({signal.Signals(-code).name})"
