"""Compare exported models with native ones on real data: probabilities, answers and microseconds."""
