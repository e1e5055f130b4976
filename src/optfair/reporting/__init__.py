"""Tell people who were not there what was measured: one document of numbers, its verdict, its findings and its pages."""
