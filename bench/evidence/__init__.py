"""Every claim of the five papers that this machine can put to the test, measured and written as one page: python3 -m
bench.evidence."""
