"""Measure seconds: of the solver, of the baselines' solvers, and of OptFair beside the released code."""
