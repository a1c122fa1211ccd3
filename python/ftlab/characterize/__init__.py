"""Characterization: a drive learned from the outside."""
