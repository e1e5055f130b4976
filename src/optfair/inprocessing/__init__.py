"""Fairness while a model is trained: a game between a learner and the multipliers of the constraints."""
