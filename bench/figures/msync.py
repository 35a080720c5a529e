"""libperdure beside other ways to keep memory: single rows, real programs, and YCSB."""

from . import msync_rows, ycsb


def run(report, small):
    msync_rows.run(report, small)
    ycsb.run(report, small)
