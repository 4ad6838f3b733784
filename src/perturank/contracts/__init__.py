"""What every ranker promises, whatever its algorithm: `perturank check` and the tests run these functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perturank.contracts import batches, limits, rankers
from perturank.contracts.terms import ContractBroken
from perturank.publishing import Published

__all__ = ["CONTRACTS", "Contract", "ContractBroken"]


@dataclass(frozen=True)
class Contract:
    """A function that raises ContractBroken, and the protocols that a ranker must declare for it to apply."""

    check: Callable[[Published], None]
    protocols: tuple[type, ...] = ()

    @property
    def name(self) -> str:
        """The function's name, as a sentence."""
        return self.check.__name__.replace("_", " ")

    def applies_to(self, published: Published) -> bool:
        """Say whether the ranker declares what the contract is about."""
        return all(isinstance(published.kind, protocol) for protocol in self.protocols)


CONTRACTS = tuple(
    Contract(check, protocols) for module in (rankers, batches, limits) for check, protocols in module.CONTRACTS.items()
)
