"""Relational Tucker decomposition of knowledge graphs."""
