"""The canonical form: what a module computes, apart from how its text happens to look."""
