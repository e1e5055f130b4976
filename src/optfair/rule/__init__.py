"""The fair rule: the problem, how it is solved, its certificate, its decisions, its file, its frontier."""
