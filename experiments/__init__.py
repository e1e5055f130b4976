"""Run the project's experiments: plan → data → fit and score → lines in files → pages. Not part of the wheel."""
