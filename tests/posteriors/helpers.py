"""What several tests of `optfair.posteriors` need."""


def draw_cells(P, rng):
    """Draw one cell per row of P, (n, k)."""
    return (P.cumsum(axis=1) > rng.random((len(P), 1))).argmax(axis=1)
