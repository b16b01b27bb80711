"""`trivet up`: starts the roles as processes, watches them, starts again what dies, stops all in order.

`policy` decides (pure), `environment` says what each role may know (pure), `plan` names the roles,
`watch` does it, `__main__` puts it together.
"""

import gateway.telemetry.plain  # noqa: F401 - before any module of a role loads structlog
