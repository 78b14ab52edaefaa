"""How older ledgers become newer ones: one file per schema in `versions`, run by alembic."""
