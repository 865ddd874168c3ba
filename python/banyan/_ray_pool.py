"""Workers of a Ray cluster, of one kind or several, and the blocks that they answer. A worker that dies is replaced, and
its block is answered by another; nothing else is lost."""
from __future__ import annotations

import collections
import dataclasses
import logging
import re
from typing import Any, Callable, Mapping, Sequence

from ._errors import Error

log = logging.getLogger("banyan")

_DEATHS_OF_A_BLOCK = 5  # as many workers may die over one block before it is to blame
_FAILED_STARTS = 3  # of one kind, one after another
_OURS = "banyan._errors.Error:"  # in a trace: what follows is ours, and would be said again


def device_with(gpus: float) -> str:
    """What a worker computes on: Ray shows it the GPUs that it assigned, and no others."""
    return "cpu" if not gpus else "cuda" if gpus <= 1 else "cuda:all"


def backend_of(device: str) -> str:
    """Of "cuda:0,1" what decides the bits: "cuda"."""
    return re.split("[:,]", device)[0]


@dataclasses.dataclass(frozen=True)
class Workers:
    """Workers of one kind: what each of them takes of a machine. With GPUs the device is cuda, or cuda:all with several."""

    count: int | None = None  #: None: as many as the cluster has room for
    cpus: float = 1
    gpus: float = 0
    resources: Mapping[str, float] = dataclasses.field(default_factory=dict)  #: of Ray's own names
    device: str | None = None  #: None: cuda or cuda:all with GPUs, else cpu
    threads: int | None = None  #: None: one for every CPU

    @property
    def its_device(self) -> str:
        return self.device or device_with(self.gpus)

    @property
    def wants(self) -> dict[str, float]:
        """Of a machine, by Ray's names."""
        every = {"CPU": self.cpus, "GPU": self.gpus, **self.resources}
        return {name: amount for name, amount in every.items() if amount}

    @property
    def name(self) -> str:
        more = "".join(f", {amount:g} {name}" for name, amount in self.resources.items())
        return f"{self.its_device}: {self.cpus:g} CPUs, {self.gpus:g} GPUs{more}"


def as_kinds(workers: int | Workers | Sequence[Workers] | None, cpus: float, gpus: float) -> list[Workers]:
    """What a caller says of workers, as kinds."""
    if workers is None or isinstance(workers, int):
        if workers is not None and workers < 1:
            raise Error(f"workers: expected a number from 1 on, found {workers}")
        return [Workers(workers, cpus, gpus)]
    kinds = [workers] if isinstance(workers, Workers) else list(workers)
    if not kinds or not all(isinstance(kind, Workers) for kind in kinds):
        raise Error("workers: expected a number, or banyan.ray.Workers of every kind")
    return kinds


def _take_room(machines: Sequence[dict[str, float]], wants: Mapping[str, float]) -> bool:
    """Takes a worker's share of the first machine that has it."""
    for machine in machines:
        if all(machine.get(name, 0.0) >= amount for name, amount in wants.items()):
            for name, amount in wants.items():
                machine[name] -= amount
            return True
    return False


def count_workers(kinds: Sequence[Workers], machines: Sequence[Mapping[str, float]]) -> list[int]:
    """How many workers of every kind there will be. A worker lives on one machine: a kind that fits nowhere would be
    waited for without end, and is refused. Kinds with GPUs choose first."""
    for kind in kinds:
        if not any(all(one.get(name, 0.0) >= amount for name, amount in kind.wants.items()) for one in machines):
            most = {name: max((one.get(name, 0.0) for one in machines), default=0.0) for name in {"CPU": 0, "GPU": 0, **kind.wants}}
            raise Error(f"a worker wants {', '.join(f'{amount:g} {name}' for name, amount in kind.wants.items())} "
                        "(cpus_per_worker, gpus_per_worker, Workers), and no machine of the cluster has them: at most "
                        f"{', '.join(f'{amount:g} {name}' for name, amount in most.items())} on one", "limit")
    free = [dict(one) for one in machines]
    counts = [0] * len(kinds)
    for number in sorted(range(len(kinds)), key=lambda number: (-kinds[number].gpus, number)):
        wanted = kinds[number].count
        while (wanted is None or counts[number] < wanted) and kinds[number].wants and _take_room(free, kinds[number].wants):
            counts[number] += 1
        counts[number] = max(counts[number], wanted or 1)  # what has no room now waits for it
    return counts


@dataclasses.dataclass
class _Worker:
    kind: int
    actor: Any
    block: int | None = None  # None: it is starting


class WorkerPool:
    """Hands blocks to workers, one at a time each. What passes through Ray is a block's number."""

    def __init__(self, kinds: Sequence[Workers], counts: Sequence[int], start: Callable[[Workers], Any]) -> None:
        self.kinds, self.counts, self.start = kinds, counts, start
        self.busy: dict[Any, _Worker] = {}  # by what they owe
        self.failed_starts = [0] * len(kinds)
        self.deaths: collections.Counter[int] = collections.Counter()

    def run(self, blocks: Sequence[int], done: Callable[[int], object]) -> None:
        """Until all blocks are answered, in about this order. Raises an Error of a worker's own."""
        import ray
        waiting = collections.deque(blocks)
        left = len(waiting)
        try:
            for number in _in_turns(self.counts, left):
                self._start(number)
            while left:
                ready, _ = ray.wait(list(self.busy), num_returns=1)
                worker = self.busy.pop(ready[0])
                if self._taken(ready[0], worker, waiting):
                    if worker.block is not None:
                        left -= 1
                        done(worker.block)
                    if waiting:
                        worker.block = waiting.popleft()
                        self.busy[worker.actor.work.remote(worker.block)] = worker
                    else:
                        ray.kill(worker.actor)
                elif waiting:
                    self._start(worker.kind)
        finally:
            for worker in self.busy.values():
                ray.kill(worker.actor)

    def _start(self, kind: int) -> None:
        actor = self.start(self.kinds[kind])
        self.busy[actor.ready.remote()] = _Worker(kind, actor)

    def _taken(self, reference: Any, worker: _Worker, waiting: collections.deque[int]) -> bool:
        """Whether the worker did what it owed; otherwise it is dead, and its block waits again."""
        import ray
        try:
            ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", None)
            raise (cause if isinstance(cause, Error) else error) from None
        except ray.exceptions.RayError as error:  # the worker, or its machine, is gone
            self._died(worker, error, waiting)
            return False
        self.failed_starts[worker.kind] = 0
        return True

    def _died(self, worker: _Worker, error: Exception, waiting: collections.deque[int]) -> None:
        kind = self.kinds[worker.kind]
        if worker.block is None:
            self.failed_starts[worker.kind] += 1
            if self.failed_starts[worker.kind] >= _FAILED_STARTS or _OURS in str(error):
                raise Error(f"workers ({kind.name}) do not start: {_own_words(error)}", "limit")
            log.warning("a worker (%s) did not start: %s", kind.name, _own_words(error))
            return
        self.deaths[worker.block] += 1
        if self.deaths[worker.block] >= _DEATHS_OF_A_BLOCK:
            raise Error(f"block {worker.block}: {_DEATHS_OF_A_BLOCK} workers died while they answered it; the last: "
                        f"{_own_words(error)}", "limit")
        log.warning("a worker (%s) died; block %d is answered again", kind.name, worker.block)
        waiting.appendleft(worker.block)


def _own_words(error: Exception) -> str:
    """What a worker said, without Ray's trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if _OURS in line]
    return told[-1].split(_OURS, 1)[1].strip() if told else (lines[-1] if lines else type(error).__name__)


def _in_turns(counts: Sequence[int], most: int) -> list[int]:
    """Kinds, one worker of each after another, and no more workers than blocks."""
    turns = [number for turn in range(max(counts, default=0)) for number, count in enumerate(counts) if turn < count]
    return turns[:most]
