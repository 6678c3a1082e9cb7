"""`python -m athanor`: the console command, for use without an installed package."""

from __future__ import annotations

import sys

from athanor.command_line import main

sys.exit(main())
