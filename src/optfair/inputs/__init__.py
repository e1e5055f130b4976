"""What a user hands in, checked once: labels, containers, who a person is, splits, training data."""
