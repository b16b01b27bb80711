"""`trivet up`: starts the roles as processes, watches them, starts again what dies, stops all in order.

`plan` names the roles and says what each may know (pure), `watch` keeps them alive, `__main__` puts it together."""
