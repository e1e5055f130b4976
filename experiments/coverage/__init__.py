"""How often promises to new people hold, and what they cost: `python -m experiments.coverage`."""
