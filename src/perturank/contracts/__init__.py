"""What every ranker promises, whatever its algorithm: `perturank check` and the tests run these functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perturank.contracts import batches, limits, rankers
from perturank.contracts.terms import ContractBroken, DoesNotApply
from perturank.publishing import Published

__all__ = ["CONTRACTS", "Contract", "ContractBroken", "DoesNotApply"]


@dataclass(frozen=True)
class Contract:
    """A function that raises ContractBroken, and the protocols that a ranker must declare for it to apply.

    It raises DoesNotApply where it says nothing of a ranker that declares them.
    """

    check: Callable[[Published], None]
    protocols: tuple[type, ...] = ()

    @property
    def name(self) -> str:
        """The function's name, as a sentence."""
        return self.check.__name__.replace("_", " ")

    def missing_from(self, published: Published) -> list[str]:
        """Return the names of the protocols that the contract is about and the ranker does not declare."""
        return [each.__name__ for each in self.protocols if not isinstance(published.kind, each)]

    def applies_to(self, published: Published) -> bool:
        """Say whether the ranker declares what the contract is about."""
        return not self.missing_from(published)


CONTRACTS = tuple(
    Contract(check, protocols) for module in (rankers, batches, limits) for check, protocols in module.CONTRACTS.items()
)
