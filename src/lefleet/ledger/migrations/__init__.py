"""How an older ledger becomes a newer one, run by alembic: one file per schema in `versions`."""
