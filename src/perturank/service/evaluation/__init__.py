"""What another ranker would have earned on the traffic of a model: `perturank evaluate`."""
