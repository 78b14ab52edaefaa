"""`python -m lefleet` is the `lefleet` command."""

import sys

from lefleet.cli import main

sys.exit(main())
