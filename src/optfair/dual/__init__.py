"""The convex dual: the posterior, the kernel, the problem and its solvers."""
