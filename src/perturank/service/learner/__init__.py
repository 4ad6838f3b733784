"""The learner: reads the log, updates models and publishes versions; replay, retention and erasure; never serves."""
