"""Actions change the work folders that queries read."""

from tests.queries.conftest import gate, learned, workdir

__all__ = ["gate", "learned", "workdir"]
