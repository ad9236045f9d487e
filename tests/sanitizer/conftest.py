"""project/ is a project of its own: test_ways_in.py runs pytest in it."""

collect_ignore = ["project"]
