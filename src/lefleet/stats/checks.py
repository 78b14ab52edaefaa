"""What the numbers that people give must be; each message names the field and the remedy."""

from math import isfinite

from lefleet.errors import BadInput


def require_alpha(alpha: float, field: str = "alpha") -> None:
    """An error probability; above one half both sides of a comparison would be proven at once."""
    if not 0.0 < alpha <= 0.5:
        raise BadInput(
            f"{field}: must lie above 0 and not above 0.5, got {alpha}.", "The usual one is 0.05."
        )


def require_share(field: str, value: float) -> None:
    """A number strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise BadInput(f"{field}: must lie between 0 and 1, got {value}.", "Give a share like 0.1.")


def require_count(field: str, value: int) -> None:
    """At least one of something."""
    if value < 1:
        raise BadInput(f"{field}: must be at least 1, got {value}.", "Give a whole number.")


def success_of(value: float, row: int, field: str) -> int:
    """0 or 1; rows count from 1, as in a file."""
    if value not in (0, 1):
        raise BadInput(
            f"row {row}, {field}: success must be 0 or 1, got {value}.",
            "Write 1 for a success and 0 for a failure; what lies between is for metric progress.",
        )
    return int(value)


def progress_of(value: float, row: int, field: str) -> float:
    """A number from 0 to 1; rows count from 1, as in a file."""
    if not (isfinite(value) and 0.0 <= value <= 1.0):
        raise BadInput(
            f"row {row}, {field}: progress must lie between 0 and 1, got {value}.",
            "Scale it to that range, or leave the row out.",
        )
    return float(value)
