"""The types of sub-agents as they come with Trivet."""

from __future__ import annotations

from agent.subagents.catalog import sub_type_of
from gateway.contracts.profiles import SUB_TYPE_ROWS

CATALOG = {name: sub_type_of(row) for name, row in SUB_TYPE_ROWS.items()}
