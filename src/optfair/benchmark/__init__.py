"""The paper's experiments: plan → people → work (fit, score) → lines in files → page."""
