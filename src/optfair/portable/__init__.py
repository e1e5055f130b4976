"""What runs without optfair: graphs of rules, and scorers of one file."""
