"""The convex dual: kernel, solvers, certificate."""
