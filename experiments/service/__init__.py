"""Load a service as real clients do: requests a second, memory, malformed requests, and an end in mid-load."""
