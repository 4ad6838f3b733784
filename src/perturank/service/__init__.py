"""The ranking service: an HTTP API in front of a log, and a learner behind it. Needs `perturank[service]`."""
