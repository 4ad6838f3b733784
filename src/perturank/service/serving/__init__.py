"""Serving: the models in memory, drawing lists, explaining them; no HTTP, no learning."""
