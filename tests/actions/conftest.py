"""Actions change the work folders that queries read."""

from tests.queries.conftest import comparison, gate, learned, workdir

__all__ = ["comparison", "gate", "learned", "workdir"]
