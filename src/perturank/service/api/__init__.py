"""The HTTP API: parsing, routes, the gate in front of them."""
