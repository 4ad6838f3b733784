"""A = λI + Σ (g_i - g_j)(g_i - g_j)ᵀ of lemma_CI in the space of gradients, and the widths it gives.

Widths come from K = G A⁻¹ Gᵀ. No gradient is written out while layer vectors do: see `tangents`. λ (`l2`) is an
argument of every method: it belongs to the ranker's settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import lax

from perturank.core import Array
from perturank.parts import triangle
from perturank.parts.preferences import Pairs
from perturank.parts.soundness import Fault
from perturank.parts.tangents import Differences, Tangents, inner

DOCUMENT_BLOCK = 16
PAIR_BLOCK = 8  # products with fewer columns take as long
MOST_PAIRS = 32  # at once
N_NEWEST = 64
ROUNDING = 1e-6  # relative to the gradients, below which their difference is none


class Diagonal(eqx.Module):
    """The diagonal of A alone, in the shape [n, m] of every layer."""

    layers: tuple[Array, ...]

    @classmethod
    def start(cls, like: Tangents, l2: Array | float) -> Diagonal:
        """Return that of λI, for gradients like these."""
        return cls(tuple(jnp.full(shape, l2, jnp.float32) for shape in like.shapes))

    def log_det_ratio(self, l2: Array | float) -> Array:
        """Return log det A / det λI."""
        return sum((jnp.sum(jnp.log(layer / l2)) for layer in self.layers), jnp.zeros(()))

    @property
    def has_overflowed(self) -> Array:
        """Whether more pairs came than there is room for: a diagonal needs none."""
        return jnp.asarray(False)

    def with_room(self, n_rounds: int, n_pairs: int) -> Diagonal:
        """Return the same: a diagonal does not grow."""
        return self

    def bound(self, documents: Tangents, products: Array, l2: Array | float) -> Array:
        """Return a cheap kernel with no smaller widths: that of λI; `products` is G Gᵀ; [V, V]."""
        return products / l2

    def kernel(self, documents: Tangents, products: Array, needed: Array, l2: Array | float) -> Array:
        """Return K among the needed documents [V], and anything elsewhere; [V, V]."""
        inverse = [1 / layer for layer in self.layers]

        def image(rows: Array) -> tuple[tuple[()], Any]:
            block = documents.take(rows)
            layers = zip(block.inputs, block.backwards, inverse, strict=True)
            return (), [a.T[:, :, None] * back[None] * d[:, None, :] for a, back, d in layers]

        def against(rows: Array, _: tuple[()], __: Array, image: Any) -> Array:
            block, total = documents.take(rows), jnp.zeros(())
            for a, back, scaled in zip(block.inputs, block.backwards, image, strict=True):
                n, size, m = scaled.shape
                through = (a @ scaled.reshape(n, size * m)).reshape(-1, size, m)
                total = total + jnp.sum(through * back[:, None, :], axis=2)
            return total

        return _filled(needed, (), image, against)

    def widened(self, shown: Tangents, pairs: Pairs, l2: Array | float) -> Diagonal:
        """Return A with one list's pairs in it."""
        news = _differences(shown, pairs)
        layers = []
        for layer, a, back, a_, back_ in zip(
            self.layers,
            news.winner.inputs,
            news.winner.backwards,
            news.loser.inputs,
            news.loser.backwards,
            strict=True,
        ):
            difference = a[:, :, None] * back[:, None, :] - a_[:, :, None] * back_[:, None, :]
            layers.append(layer + jnp.sum(difference**2, axis=0))
        return Diagonal(tuple(layers))


class Full(eqx.Module):
    """All of A, in the cheaper of two forms, both the lower triangle of a symmetric matrix in tiles.

    Dual: the Cholesky factor L of λI + U Uᵀ, with a row of U = the pairs' gradient differences for each
    pair so far; diagonal tiles hold their inverses. Primal: A⁻¹ itself, from the round on in which pairs
    would outnumber parameters: the factor would outgrow it then, and λ alone would keep it from being singular.
    """

    tiles: Array
    pairs: Differences  # the first n rows of U; in primal form the newest, going round
    n: Array
    is_primal: Array
    log_det: Array  # log det A / det λI
    n_parameters: int = eqx.field(static=True)

    @classmethod
    def start(cls, like: Tangents, l2: Array | float, tile: int = triangle.TILE) -> Full:
        """Return λI, whatever λ is, for gradients like these; a tile holds whole groups of pairs."""
        none = jax.tree.map(lambda leaf: jnp.zeros((tile, leaf.shape[1])), like)
        pairs = Differences(none, jax.tree.map(jnp.copy, none))
        zero = jnp.zeros((), jnp.int32)
        return cls(jnp.zeros((1, tile, tile)), pairs, zero, jnp.zeros((), bool), jnp.zeros(()), like.n_parameters)

    def fault(self) -> Fault | None:
        """Return what is wrong with it, if its arrays do not belong together or it counts more rows than they have."""
        n, rows, n_tiles = int(self.n), self.n_blocks * self.tile, self.tiles.shape[0]
        if not 1 <= self.n_blocks <= self.most_blocks or n_tiles != triangle.n_tiles(self.n_blocks):
            return Fault(".tiles", f"has {n_tiles} tiles, which are no triangle of 1 to {self.most_blocks} rows")
        for path, leaf in jax.tree_util.tree_flatten_with_path(self.pairs)[0]:
            if leaf.shape[0] != rows:
                name = f".pairs{jax.tree_util.keystr(path)}"
                return Fault(name, f"has {leaf.shape[0]} rows where there are tiles for {rows}")
        if self.is_primal and not self.may_be_primal:
            return Fault(".is_primal", f"speaks of an inverse, for which {rows} rows are too few")
        if n < 0 or (n > rows and not self.is_primal):
            return Fault(".n", f"counts {n} pairs where there is room for {rows}")
        return None

    @property
    def tile(self) -> int:
        """The number of rows in a tile."""
        return self.tiles.shape[1]

    @property
    def n_blocks(self) -> int:
        """The number of block rows there is room for."""
        return triangle.n_blocks(self.tiles)

    @property
    def most_blocks(self) -> int:
        """The number of block rows of A⁻¹, beyond which the factor never grows."""
        return -(-self.n_parameters // self.tile)

    @property
    def may_be_primal(self) -> bool:
        """Whether there is room for A⁻¹."""
        return self.n_blocks == self.most_blocks

    @property
    def has_overflowed(self) -> Array:
        """Whether more pairs came than there is room for."""
        return ~self.is_primal & (self.n > self.n_blocks * self.tile)

    def with_room(self, n_rounds: int, n_pairs: int) -> Full:
        """Return the same with room for so many more rounds of so many pairs; a traced one cannot grow."""
        if isinstance(self.n, jax.core.Tracer) or self.may_be_primal:
            return self
        # A group of pairs that does not fit into its tile whole goes to the next one.
        rows = int(self.n) + n_rounds * n_pairs
        needed = -(-rows // (self.tile - _group(n_pairs) + 1)) + 1
        n = self.n_blocks
        while n < needed:
            n *= 2
        n = min(n, self.most_blocks)
        if n == self.n_blocks:
            return self
        grown = _extended(self.tiles, triangle.n_tiles(n))
        pairs = jax.tree.map(lambda leaf: _extended(leaf, n * self.tile), self.pairs)
        return eqx.tree_at(lambda a: (a.tiles, a.pairs), self, (grown, pairs))

    def log_det_ratio(self, l2: Array | float) -> Array:
        """Return log det A / det λI."""
        return self.log_det

    def bound(self, documents: Tangents, products: Array, l2: Array | float) -> Array:
        """Return a cheap kernel with no smaller widths: that of λI and some of the newest pairs; [V, V]."""
        size = min(N_NEWEST, self.tile)
        row = (self.n // size - 1) * size % (self.n_blocks * self.tile)
        newest = jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, row, size), self.pairs)
        factor = jnp.linalg.cholesky(inner(newest, newest) + l2 * jnp.eye(size))
        half = jsl.solve_triangular(factor, inner(newest, documents), lower=True)
        return (products - half.T @ half) / l2

    def kernel(self, documents: Tangents, products: Array, needed: Array, l2: Array | float) -> Array:
        """Return K among the needed documents [V], and anything elsewhere; `products` is G Gᵀ; [V, V]."""
        if not self.may_be_primal:
            return self._dual_kernel(documents, products, needed, l2)
        return lax.cond(
            self.is_primal,
            lambda: self._primal_kernel(documents, needed),
            lambda: self._dual_kernel(documents, products, needed, l2),
        )

    def _dual_kernel(self, documents: Tangents, products: Array, needed: Array, l2: Array | float) -> Array:
        n_rows = -(-self.n // self.tile)
        none = jnp.zeros((self.n_blocks, self.tile, DOCUMENT_BLOCK))

        def image(rows: Array) -> tuple[Array, Array]:
            block = documents.take(rows)
            found = triangle.solved(self.tiles, n_rows, lambda b: inner(self._rows(b), block), none)
            return found, found

        def against(rows: Array, other: Array, rows_: Array, image: Array) -> Array:
            return (products[rows][:, rows_] - _product(other, image, n_rows)) / l2

        return _filled(needed, none, image, against)

    def _primal_kernel(self, documents: Tangents, needed: Array) -> Array:
        none = jnp.zeros((self.most_blocks, self.tile, DOCUMENT_BLOCK))

        def image(rows: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
            columns = self._columns(documents.take(rows))
            found = columns, triangle.half_product(self.tiles, columns)
            return found, found

        def against(_: Array, other: tuple[Array, Array], __: Array, image: tuple[Array, Array]) -> Array:
            n = self.most_blocks
            return _product(other[0], image[1], n) + _product(other[1], image[0], n)

        return _filled(needed, (none, none), image, against)

    def widened(self, shown: Tangents, pairs: Pairs, l2: Array | float) -> Full:
        """Return A with one list's pairs in it."""
        news, q = _differences(shown, pairs), pairs.weight.shape[0]
        size = _group(q)
        n_groups = -(-q // size)
        news = jax.tree.map(lambda leaf: _extended(leaf, n_groups * size), news)

        def add(i: Array, a: Full) -> Full:
            return a._with(news.take(i * size + jnp.arange(size)), l2)

        return add(jnp.zeros((), jnp.int32), self) if n_groups == 1 else lax.fori_loop(0, n_groups, add, self)

    def _with(self, news: Differences, l2: Array | float) -> Full:
        """Return A with these differences in it; those of equal gradients add nothing."""
        gram, size = inner(news, news), news.winner.inputs[0].shape[0]
        own = jnp.diagonal(inner(news.winner, news.winner) + inner(news.loser, news.loser))
        real = jnp.diagonal(gram) > ROUNDING * own
        order = jnp.argsort(~real)
        news, real, gram = news.take(order), real[order], gram[order][:, order]
        place, some = self._place(size), jnp.any(real)
        # Loops of no turn choose the form: the branches of a conditional would each copy the tiles.
        if self.may_be_primal:
            a = self._switched(some & (place + size > self.n_parameters), l2)
            a = a._dual_with(news, gram, real & ~a.is_primal, place, l2)._primal_with(news, real & a.is_primal)
        else:
            a = self._dual_with(news, gram, real, place, l2)
        # In primal form the rows go round: only the newest are of use.
        row = place % (self.n_blocks * self.tile)

        def stored(leaf: Array, new: Array) -> Array:
            old = lax.dynamic_slice_in_dim(leaf, row, size)
            return lax.dynamic_update_slice_in_dim(leaf, jnp.where(some, new * real[:, None], old), row, 0)

        pairs = jax.tree.map(stored, self.pairs, news)
        n = jnp.where(some, place + jnp.sum(real, dtype=jnp.int32), self.n)
        return eqx.tree_at(lambda a: (a.pairs, a.n), a, (pairs, n))

    def _place(self, size: int) -> Array:
        """Return the row for the next pairs: the first free one, or the next tile's if they do not fit into this."""
        used = self.n % self.tile
        return jnp.where(used + size > self.tile, self.n - used + self.tile, self.n)

    def _dual_with(self, news: Differences, gram: Array, real: Array, place: Array, l2: Array | float) -> Full:
        """Return A with more rows u of U: the factor becomes [L 0; Hᵀ F], H = L⁻¹Uuᵀ, FFᵀ = λI + uuᵀ - HᵀH."""
        size, some = real.shape[0], jnp.any(real)
        b, at = place // self.tile, place % self.tile
        n_rows = jnp.where(some, -(-self.n // self.tile), 0)
        none = jnp.zeros((self.n_blocks, self.tile, size))
        beside = triangle.solved(self.tiles, n_rows, lambda c: inner(self._rows(c), news) * real, none)
        rest = jnp.where(real[:, None] & real, gram - _product(beside, beside, n_rows), 0.0)
        pivots, factor = _factor(rest + l2 * jnp.eye(size), l2)
        inverse = jsl.solve_triangular(factor, jnp.eye(size), lower=True)
        corner = -inverse @ (beside[b].T @ triangle.tile(self.tiles, b, b))
        corner = lax.dynamic_update_slice(corner, inverse, (jnp.zeros_like(at), at)) * real[:, None]
        rows = beside.mT.at[b].set(corner)
        grown = triangle.with_rows(self.tiles, b, at, rows, jnp.where(some, b + 1, 0))
        log_det = self.log_det + jnp.sum(jnp.log(pivots / l2))
        return eqx.tree_at(lambda a: (a.tiles, a.log_det), self, (grown, log_det))

    def _primal_with(self, news: Differences, real: Array) -> Full:
        """Return A with more differences u, by Woodbury: A⁻¹ - A⁻¹uᵀ (I + u A⁻¹ uᵀ)⁻¹ u A⁻¹."""
        columns, size = self._columns(news) * real, real.shape[0]
        n = jnp.where(jnp.any(real), self.most_blocks, 0)
        through = triangle.product(self.tiles, columns, n)
        pivots, factor = _factor(_product(columns, through, n) + jnp.eye(size), 1.0)
        inverse = jsl.solve_triangular(factor, jnp.eye(size), lower=True)
        less = triangle.less_squares(self.tiles, through @ inverse.T, n)
        log_det = self.log_det + jnp.sum(jnp.log(pivots))
        return eqx.tree_at(lambda a: (a.tiles, a.log_det), self, (less, log_det))

    def _switched(self, due: Array, l2: Array | float) -> Full:
        """Return A in primal form if that is due: its pairs so far go into λI one group after another."""
        now, everyone = due & ~self.is_primal, jnp.ones(MOST_PAIRS, bool)
        fresh = triangle.identity(self.tiles, 1 / l2, jnp.where(now, self.most_blocks, 0))

        def add(i: Array, a: Full) -> Full:
            rows = i * MOST_PAIRS + jnp.arange(MOST_PAIRS)
            return a._primal_with(self.pairs.take(rows), everyone)

        a = eqx.tree_at(lambda a: a.tiles, self, fresh)
        a = lax.fori_loop(0, jnp.where(now, -(-self.n // MOST_PAIRS), 0), add, a)
        return eqx.tree_at(lambda a: (a.is_primal, a.log_det), a, (self.is_primal | due, self.log_det))

    def _rows(self, b: Array) -> Differences:
        """Return block row b of U."""
        return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, b * self.tile, self.tile), self.pairs)

    def _columns(self, gradients: Tangents | Differences) -> Array:
        """Return gradients written out, as columns in blocks of parameters; [M] -> [B, T, M]."""
        g = gradients.explicit()
        g = jnp.pad(g, ((0, 0), (0, self.most_blocks * self.tile - self.n_parameters)))
        return g.T.reshape(self.most_blocks, self.tile, g.shape[0])


Covariance = Diagonal | Full


def _group(n_pairs: int) -> int:
    """Return how many pairs are added at once."""
    return min(-(-n_pairs // PAIR_BLOCK) * PAIR_BLOCK, MOST_PAIRS)


def _differences(shown: Tangents, pairs: Pairs) -> Differences:
    """Return √w (g_i - g_j) of every pair of the list."""
    root = jnp.sqrt(pairs.weight)[:, None]
    return Differences(shown.take(pairs.winner).scaled(root), shown.take(pairs.loser).scaled(root))


def _filled(
    needed: Array,
    like: Any,
    image: Callable[[Array], tuple[Any, Any]],
    against: Callable[[Array, Any, Array, Any], Array],
) -> Array:
    """Return a symmetric [V, V] of which the rows and columns of needed documents are known.

    Documents come in blocks. `image(rows)` is what is kept of a block (`like`) and what of it meets
    the others: `against(rows, kept, rows, image)` is the matrix between two blocks.
    """
    v, size = needed.shape[0], DOCUMENT_BLOCK
    n_most = -(-v // size)
    # Beyond the last document reads are clamped and writes dropped.
    order = jnp.pad(jnp.argsort(~needed), (0, n_most * size - v), constant_values=v).reshape(n_most, size)
    n = -(-jnp.sum(needed) // size)

    def column(j: Array, state: tuple[Array, Any]) -> tuple[Array, Any]:
        kernel, kept = state
        mine, meeting = image(order[j])
        kept = jax.tree.map(lambda buffer, leaf: buffer.at[j].set(leaf), kept, mine)

        def row(i: Array, kernel: Array) -> Array:
            other = jax.tree.map(lambda buffer: buffer[i], kept)
            block = against(order[i], other, order[j], meeting)
            kernel = kernel.at[order[i][:, None], order[j]].set(block, mode="drop")
            return kernel.at[order[j][:, None], order[i]].set(block.T, mode="drop")

        return lax.fori_loop(0, j + 1, row, kernel), kept

    buffers = jax.tree.map(lambda leaf: jnp.zeros((n_most, *leaf.shape)), like)
    return lax.fori_loop(0, n, column, (jnp.zeros((v, v)), buffers))[0]


def _product(one: Array, other: Array, n: Array | int) -> Array:
    """Return XᵀY over the first n blocks of rows; [B, T, M], [B, T, M′] -> [M, M′]."""
    return lax.fori_loop(0, n, lambda b, total: total + one[b].T @ other[b], jnp.zeros((one.shape[2], other.shape[2])))


def _factor(matrix: Array, least: Array | float) -> tuple[Array, Array]:
    """Return the pivots and the Cholesky factor; no pivot is below `least`, which bounds them but for rounding."""
    places = jnp.arange(matrix.shape[0])

    def column(j: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        rest, pivots, factor = state
        pivot = jnp.maximum(rest[j, j], least)
        here = jnp.where(places == j, jnp.sqrt(pivot), jnp.where(places > j, rest[:, j] / jnp.sqrt(pivot), 0.0))
        return rest - here[:, None] * here, pivots.at[j].set(pivot), factor.at[:, j].set(here)

    start = (matrix, jnp.zeros(matrix.shape[0]), jnp.zeros_like(matrix))
    _, pivots, factor = lax.fori_loop(0, matrix.shape[0], column, start)
    return pivots, factor


def _extended(array: Array, n: int) -> Array:
    return jnp.concatenate([array, jnp.zeros((n - array.shape[0], *array.shape[1:]), array.dtype)])
