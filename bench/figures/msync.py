"""libperdure beside other ways to keep memory: single rows, real programs, and YCSB."""

import importlib.util

from . import ycsb


def run(report, small):
    if importlib.util.find_spec("figures.msync_rows"):
        from . import msync_rows

        msync_rows.run(report, small)
    ycsb.run(report, small)
