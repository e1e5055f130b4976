"""Tell people who were not there what was measured: one document of numbers, a verdict, findings, and pages."""
