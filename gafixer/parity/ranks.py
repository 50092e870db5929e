"""The same step on several ranks: forked worker processes over gloo, or the ranks that torchrun launched."""

from __future__ import annotations

import multiprocessing
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gafixer.parity.drive import Driven, drive_trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from gafixer.parity.heads import Head
    from gafixer.parity.measure import Outcome
    from gafixer.parity.windows import Window

__all__ = ["Launch", "drive_launched", "drive_ranks", "on_ranks"]

_PATIENCE = 600.0  # seconds for the ranks to finish


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _forget_single_process() -> None:
    """Accelerate keeps one state per process; a fork inherits the parent's, which knows of no other ranks."""
    from accelerate.state import AcceleratorState  # type: ignore[import-untyped]  # accelerate ships no type information

    AcceleratorState._reset_state(reset_partial_state=True)


def _rank(rank: int, processes: int, port: int, answers: Connection, work: Callable[[], Any]) -> None:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(processes),
        LOCAL_WORLD_SIZE=str(processes),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        ACCELERATE_USE_CPU="true",
    )
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what fails is told to the parent; the rest is chatter
    torch.set_num_threads(1)
    _forget_single_process()
    try:
        answers.send((work(),))
    except Exception as error:  # told to the parent, which raises it
        answers.send(f"rank {rank}: {type(error).__name__}: {error}")
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def on_ranks(processes: int, work: Callable[[], Any]) -> list[Any]:
    """What `work` returns in each of these ranks; plain values, no tensors.

    Raises:
        RuntimeError: where a rank fails or hangs.
    """
    context = multiprocessing.get_context("fork")
    port, workers, ends = _free_port(), [], []
    for rank in range(processes):
        answers, sending = context.Pipe(duplex=False)
        worker = context.Process(target=_rank, args=(rank, processes, port, sending, work))
        worker.start()
        sending.close()
        workers.append(worker)
        ends.append(answers)
    try:
        return [_answer(end, rank) for rank, end in enumerate(ends)]
    finally:
        for worker in workers:
            worker.join(timeout=5)
            worker.kill()


def _answer(end: Connection, rank: int) -> Any:
    try:
        told = end.recv() if end.poll(_PATIENCE) else f"rank {rank}: no answer in {_PATIENCE:g} s"
    except EOFError:
        told = f"rank {rank}: died"
    match told:
        case str():
            raise RuntimeError(told)
        case (answer,):
            return answer
        case _:
            raise AssertionError(told)


def drive_ranks(model: Any, window: Window, processes: int) -> Driven:
    """Train one step of the installed `Trainer` over the window, its microbatches dealt out to the ranks in turn.

    Raises:
        RuntimeError: where a rank fails, hangs, or ends with another gradient than the first.
        ValueError: where the microbatches cannot be dealt out evenly.
    """
    if len(window.microbatches) % processes:
        raise ValueError(f"{len(window.microbatches)} microbatches cannot be dealt out to {processes} ranks")

    def work() -> tuple[Any, float | None]:
        driven = drive_trainer(model, window, steps=len(window.microbatches) // processes, ddp_backend="gloo")
        return driven.vector.numpy(), driven.logged

    found = [Driven(torch.from_numpy(vector), logged) for vector, logged in on_ranks(processes, work)]
    for rank, other in enumerate(found):
        if not torch.allclose(other.vector, found[0].vector, equal_nan=True):
            raise RuntimeError(f"rank {rank} ends with another gradient than rank 0")
    return found[0]


@dataclass(frozen=True, slots=True)
class Launch:
    """The place of this process among those that torchrun started, all of which run the same heads."""

    rank: int
    processes: int

    @classmethod
    def found(cls) -> Launch | None:
        """What the launcher left in the environment; None where there is none, or one process only."""
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        return cls(int(os.environ["RANK"]), processes) if processes > 1 else None

    def wrapped(self, work: Callable[[Head], Iterator[Outcome]]) -> Callable[[Head], Iterator[Outcome]]:
        """The same work, its process group met at a port of the head's own.

        Each head has a process per rank, so groups come and go; a group left by one that died must not be met again.
        """

        def launched(head: Head) -> Iterator[Outcome]:
            os.environ.update(MASTER_PORT=str(self._port(head)), TORCHELASTIC_USE_AGENT_STORE="False")
            yield from work(head)

        return launched

    def _port(self, head: Head) -> int:
        store = torch.distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
        key = f"gafixer/{head.module}.{head.name}"
        if self.rank == 0:
            store.set(key, str(_free_port()))
        return int(store.get(key))


def drive_launched(model: Any, window: Window, processes: int, **arguments: Any) -> Driven:
    """Train one step of the installed `Trainer` over the window, in each of the ranks that were launched."""
    backend = "nccl" if next(model.parameters()).is_cuda else "gloo"
    return drive_trainer(model, window, steps=len(window.microbatches) // processes, ddp_backend=backend, **arguments)
