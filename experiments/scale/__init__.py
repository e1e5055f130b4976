"""Measure folders of many rows: seconds, readings, memory and bytes moved, beside a plain reading of the files."""
