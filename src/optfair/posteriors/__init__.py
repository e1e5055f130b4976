"""From X to z(x) = P(A, Y | X=x): models, out-of-fold estimates, calibration, correction by labels."""
