"""One module per schema version, each leading from the one before it."""
