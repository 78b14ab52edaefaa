"""Errors that a person reads: what happened, and what to do about it."""


class LeFleetError(Exception):
    """Base of every error that ends a command; `exit_code` is the command's."""

    exit_code = 1

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem} {remedy}".strip())
        self.problem = problem
        self.remedy = remedy


class BadInput(LeFleetError):
    """The request cannot be carried out as given; nothing was started or changed."""

    exit_code = 2


class StageFailed(LeFleetError):
    """A stage started and could not finish; its folder can be resumed."""


class ChildKilled(StageFailed):
    """A signal killed a child process of a stage, for instance because memory ran out."""
