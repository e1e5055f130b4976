"""Worlds with a known truth: synthetic data whose posteriors, optimal rules and frontiers can be computed."""
