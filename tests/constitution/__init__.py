"""Rules, their checks, and attempts to walk around them."""
