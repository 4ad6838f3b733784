"""How much one source may teach: which complete impressions the next batches leave out.

Both limits count what was learned, not what was left out. So a source that sends more gains nothing by it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from perturank.service.learner.state import Completed, Vote
from perturank.service.log.spec import Spec


class SourceLimits:
    """Decides which impressions are skipped, by the model's `cap` and `votes` and by what was learned last.

    A list that is complete again counts once: it is skipped if it was skipped before.
    """

    def __init__(self, spec: Spec, sources: deque[bytes | None], votes: deque[Vote]) -> None:
        self._cap, self._most_votes = spec.cap, spec.votes
        self._sources, self._votes = sources.copy(), votes.copy()
        self._n_of_source, self._n_of_vote = Counter(self._sources), Counter(self._votes)
        self._skipped: set[bytes] = set()

    def skipped(self, due: Sequence[Completed]) -> list[bytes]:
        """Return the names of those of the next batch that are skipped, each as often as it is due."""
        if self._cap is None and self._most_votes is None:
            return []
        skipped = []
        for completed in due:
            was_skipped = completed.is_skipped or completed.name in self._skipped
            if was_skipped or self._is_capped(completed) or self._is_repeated(completed):
                self._skipped.add(completed.name)
                skipped.append(completed.name)
            else:
                self._note(completed)
        return skipped

    def _is_capped(self, completed: Completed) -> bool:
        """Return whether too many of the last impressions come from its source."""
        source, is_first = completed.source, completed.before is None
        return self._cap is not None and is_first and source is not None and self._n_of_source[source] >= self._cap

    def _is_repeated(self, completed: Completed) -> bool:
        """Return whether its source has voted too often for one of its documents.

        Without the repeated vote the list would say that its document was looked at and turned down. So the whole list
        is skipped.
        """
        most = self._most_votes
        return most is not None and any(self._n_of_vote[vote] >= most for vote in completed.votes)

    def _note(self, completed: Completed) -> None:
        """Count an impression that is learned, as the state will."""
        if completed.before is None:
            if len(self._sources) == self._sources.maxlen:
                self._n_of_source[self._sources[0]] -= 1
            self._sources.append(completed.source)
            self._n_of_source[completed.source] += 1
        for vote in completed.votes:
            if len(self._votes) == self._votes.maxlen:
                self._n_of_vote[self._votes[0]] -= 1
            self._votes.append(vote)
            self._n_of_vote[vote] += 1
