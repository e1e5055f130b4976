"""Threads over blocks of rows, files that are whole or absent, checks of arguments, seeds."""
