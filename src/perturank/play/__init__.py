"""A search box that learns: the documentation of Python itself, ranked through the service."""
