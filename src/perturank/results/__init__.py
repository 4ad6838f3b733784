"""Runs on disk: each named by what decides it, kept in a plain file, never made twice."""
