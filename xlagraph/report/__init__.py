"""The HTML report: one page that holds a run, or a pair of modules."""
