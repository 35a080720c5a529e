"""libperdure beside other ways to keep memory: single rows, real programs, and YCSB."""

from . import msync_rows, ycsb


def run(report, small):
    msync_rows.run(report, small)
    ycsb.run(report, small)


def run_rows(report, small):
    """What has a target, without the tables of all engines: in half of the time."""
    msync_rows.run(report, small)
    ycsb.run(report, small, structures=[])
