"""The states of all models: those with traffic are in memory, the others stored.

A state is changed when it has taken a record that its stored form does not contain. The log remembers the position up
to which all stored states are complete. A restart reads from there on, and loads a model's state at its first record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import equinox as eqx
import jax

from perturank.service.learner import checkpoint
from perturank.service.learner.replay import recall_from
from perturank.service.learner.state import State
from perturank.service.log import Log, Transaction, snapshots
from perturank.service.log.records import Batch, Changed, Deleted, Record

MOST_STATES = 256
MOST_BYTES = 400_000_000  # of their rankers
MOST_KINDS = 8  # of models, one of each is loaded at the start, so that its program is compiled before the first click
MANY_RECORDS = 1000  # after which the position is remembered although nothing was stored
FAR_BEHIND = 100_000  # records after which a changed state is stored, to bound what a restart reads
COMPLETE = "learner position"


class States(Mapping[str, State]):
    """The states in memory, least recently used first; to look up a model's state loads it.

    `is_busy` says whether a model has something to do. Its last record is read again after a restart, so that its
    state is loaded then.
    """

    def __init__(self, log: Log, guard: Callable[[Transaction], None], is_busy: Callable[[State], bool]) -> None:
        self._log, self._guard, self._is_busy = log, guard, is_busy
        self._loaded: dict[str, State] = {}
        self._bytes: dict[str, int] = {}
        self._last: dict[str, int] = {}  # the position of the model's last record
        self._complete: dict[str, int] = {}  # of changed models: the position up to which the stored state is complete
        with log.transaction() as transaction:
            self._remembered = min(transaction.remembered(COMPLETE), log.tail())
        self.position = self._remembered  # up to which the log was read
        if self._remembered == 0:  # the log is new, or of an earlier version
            for model in checkpoint.living(log):
                self._add(checkpoint.nearest(log, model, recall_from(log)))
            self.position = min((state.at for state in self.values()), default=0)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._loaded))

    def __len__(self) -> int:
        return len(self._loaded)

    def __contains__(self, model: object) -> bool:
        return model in self._loaded

    def __getitem__(self, model: str) -> State:
        if model not in self._loaded:
            self._add(self._load(model))
        return self._loaded[model]

    def load_one_of_each_kind(self) -> None:
        """Load a model of each kind, so that the programs that they need can be compiled."""
        kinds: dict[object, str] = {}
        for record in self._log.control_records(kinds=(Changed, Deleted)):
            kinds = {kind: model for kind, model in kinds.items() if model != record.model}
            if isinstance(record.entry, Changed):
                kinds[record.entry.spec.kind] = record.model
        for model in list(kinds.values())[-MOST_KINDS:]:
            self[model]

    def _add(self, state: State) -> None:
        self._loaded[state.model], self._bytes[state.model] = state, _n_bytes(state)
        self._last.setdefault(state.model, state.generation)

    def _load(self, model: str) -> State:
        """Return the state after all records of the model that were read."""
        log, name, recall = self._log, snapshots.state_name(model), recall_from(self._log)
        base = checkpoint.base_of(log, model)
        state = checkpoint.load(log, model, recall, name)
        records: Iterable[Record]
        if state is not None and state.at > (0 if base is None else base.at):
            records = log.all_of(model, Changed, state.at)
        else:
            state = checkpoint.nearest(log, model, recall)
            is_new = base is None and not log.names(name) and not log.newest(model, Batch, 1)
            # A stored state that was removed, or is damaged, is made again.
            records = log.all_of(model, Changed, state.at) if is_new else log.read(state.at, self.position, model)
        for record in records:
            if record.position <= self.position:
                state.take(record)
        return state

    def note(self, state: State, record: Record) -> None:
        """Note that the state contains this record."""
        model = state.model
        self._loaded[model] = self._loaded.pop(model)
        self._last[model] = record.position
        if state.ranker is None:
            self._complete.pop(model, None)  # deleted: there is nothing to store
        elif not isinstance(record.entry, Changed):  # which an index finds when a state is loaded
            self._complete.setdefault(model, record.position - 1)
        if isinstance(record.entry, Batch | Changed | Deleted):
            self._bytes[model] = _n_bytes(state)

    def store(self, state: State) -> None:
        """Store the whole state, so that a restart need not begin at the first click."""
        content = checkpoint.pack(state, self.position)
        self._release(state)
        with self._log.transaction() as transaction:
            self._guard(transaction)
            if transaction.find_model(state.model) is not None:  # it may have been deleted meanwhile
                transaction.store(snapshots.state_name(state.model), content)
            self._remember(transaction)

    def _release(self, state: State) -> None:
        """Let the position move on past the records of a state that is stored now."""
        self._complete.pop(state.model, None)
        if self._is_busy(state):
            self._complete[state.model] = self._last[state.model] - 1

    def _remember(self, transaction: Transaction) -> None:
        self._remembered = min(self._complete.values(), default=self.position)
        transaction.remember(COMPLETE, self._remembered)

    def evict(self) -> None:
        """Drop the states that were not used for longest, as many as are too many; store those that are changed."""
        n, n_bytes = len(self), sum(self._bytes[model] for model in self)
        for state in self.values():
            if n <= MOST_STATES and n_bytes <= MOST_BYTES:
                return
            if state.ranker is None or self._is_busy(state):
                continue
            if state.model in self._complete:
                self.store(state)
            n, n_bytes = n - 1, n_bytes - self._bytes[state.model]
            del self._loaded[state.model]

    def bound_what_a_restart_reads(self) -> None:
        """Store one state that is far behind, and remember how far all others are complete."""
        for model, complete in self._complete.items():
            if self.position - complete >= FAR_BEHIND and not self._is_busy(self[model]):
                self.store(self[model])
                return
        if min(self._complete.values(), default=self.position) - self._remembered >= MANY_RECORDS:
            self._remember_now()

    def close(self) -> None:
        """Store every state that is changed."""
        for state in self.values():
            if state.model in self._complete:
                self.store(state)
            elif state.ranker is not None:
                self._release(state)
        self._remember_now()

    def _remember_now(self) -> None:
        with self._log.transaction() as transaction:
            self._guard(transaction)
            self._remember(transaction)


def _n_bytes(state: State) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(eqx.filter(state.ranker, eqx.is_array)))
