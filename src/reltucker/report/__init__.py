"""What people look at: tables here; `charts` and `page`, which bring Altair, in their modules.

It knows numbers and names, no models.
"""

from reltucker.report.tables import TEXT, Column, Table

__all__ = ["TEXT", "Column", "Table"]
