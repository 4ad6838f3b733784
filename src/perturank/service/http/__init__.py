"""HTTP in front of the service: routes, authorisation, decoding, documentation, background tasks."""
