"""One file per algorithm; each publishes its variants by name in `PUBLISHED`."""
