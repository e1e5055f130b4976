"""From people and a classifier to z(x): models, recipes that fit them out of fold, calibration."""
