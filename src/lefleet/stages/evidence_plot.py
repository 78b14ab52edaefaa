"""The evidence of a comparison as a picture: e-value and difference, pair by pair."""

import math
from pathlib import Path

from lefleet.records import ComparisonRecord

PLOT = "evidence.png"


def plot_evidence(record: ComparisonRecord, title: str, path: Path) -> None:
    """Write the picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (above, below) = plt.subplots(
        2, 1, figsize=(6.5, 5.5), sharex=True, layout="constrained"
    )
    pairs = [look.pairs for look in record.looks]
    above.plot(pairs, [look.log_e / math.log(10) for look in record.looks], "o-", color="#1f5fa8")
    enough = math.log10(1 / record.gate.alpha_better)
    above.axhline(enough, color="#b03030", linestyle="--", linewidth=1)
    above.annotate(
        f"1/level = {1 / record.gate.alpha_better:.3g}",
        (pairs[0], enough),
        xytext=(0, -11),
        textcoords="offset points",
        fontsize=8,
        color="#b03030",
    )
    above.axhline(0.0, color="#999999", linewidth=0.8)
    above.set(ylabel="e-value for better (log10)", title=f"{title}: {record.gate.verdict}")
    below.fill_between(
        pairs,
        [look.interval[0] for look in record.looks],
        [look.interval[1] for look in record.looks],
        color="#1f5fa8",
        alpha=0.2,
        label="95 % confidence sequence",
    )
    if record.metric == "success":
        below.plot(
            pairs,
            [(look.wins - look.losses) / look.pairs for look in record.looks],
            "o-",
            color="#1f5fa8",
            label="difference of success so far",
        )
    below.axhline(0.0, color="#999999", linewidth=0.8)
    below.set(xlabel="pairs", ylabel="difference", ylim=(-1.02, 1.02))
    below.set_xlim(0, max(record.gate.max_pairs, pairs[-1]) * 1.02)
    below.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=120)
    plt.close(figure)
