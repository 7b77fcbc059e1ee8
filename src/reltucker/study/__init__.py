"""Fits are compared, and the paper's study is run: plans and comparisons only.

Others import from the modules, for these bring Optuna and Altair, and `reltucker --help` must not
wait for them.
"""
