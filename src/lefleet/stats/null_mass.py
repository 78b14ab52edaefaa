"""Where the wins of gates would be by chance: their exact distribution while the gates still run.

Rows are gates or levels side by side, columns are numbers of wins. Every rounding is upwards, so
a chance that is computed here is never smaller than the true one.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    type Floats = NDArray[np.float64]
    type Counts = NDArray[np.int64]

# More than the relative error of an addition and a multiplication.
ROUND_UP = 1.0 + 2.0**-51
# More than all that is lost to numbers too small for a float.
_UNDERFLOW = 1e-300


def no_pairs(rows: int) -> "Floats":
    """Before the first pair: no wins, for certain."""
    import numpy as np

    return np.ones((rows, 1))


def add_discordant(mass: "Floats", fresh: "Counts") -> "Floats":
    """After `fresh[row]` more pairs that differ: for each, S[k] becomes (S[k] + S[k - 1]) / 2."""
    import numpy as np

    added = int(fresh.max(initial=0))
    width = mass.shape[1]
    grown = np.zeros((len(mass), width + added))
    grown[:, :width] = mass
    for step in range(added):
        half = np.where(fresh > step, 0.5, 0.0)[:, None]
        used = grown[:, : width + step + 1]
        moved = used[:, :-1] * half
        used *= (1.0 - half) * ROUND_UP
        used[:, 1:] += moved * ROUND_UP
    return grown * ROUND_UP**added


def tails(mass: "Floats") -> "Floats":
    """Chance of at least k wins in column k; the last column, out of reach, is 0."""
    import numpy as np

    width = mass.shape[1]
    result = np.zeros((len(mass), width + 1))
    np.cumsum(mass[:, ::-1], axis=1, out=result[:, -2::-1])
    result[:, :-1] *= 1.0 + width * 2.0**-51
    result[:, :-1] += _UNDERFLOW
    return result


def affordable(tail: "Floats", budget: "Floats") -> "Counts":
    """For each row the smallest number of wins whose tail does not exceed its budget."""
    import numpy as np

    return np.sum(tail > budget[:, None], axis=1, dtype=np.int64)


def remove(mass: "Floats", boundary: "Counts") -> "Floats":
    """What is left when gates with at least `boundary[row]` wins stop."""
    import numpy as np

    width = max(int(boundary.max(initial=1)), 1)
    kept = mass[:, :width]
    return np.where(np.arange(kept.shape[1]) < boundary[:, None], kept, 0.0)
