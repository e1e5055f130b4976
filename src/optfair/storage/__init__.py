"""Keep rows in files and on clusters, and bring them to the solver through the two verbs of a `Measure`."""
