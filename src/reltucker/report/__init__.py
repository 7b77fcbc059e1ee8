"""What people look at: tables here; `charts` and `page`, which bring Altair, in their modules.

It knows numbers and names, no models.
"""

from reltucker.report.tables import PERCENT, TEXT, Column, Table

__all__ = ["PERCENT", "TEXT", "Column", "Table"]
