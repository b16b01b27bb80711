"""`trivet demo`: all of Trivet on emulated platforms, with no account, no key and no network.

`rig` starts it; `__main__` opens the playground, or plays the conversations that it holds as data and checks them."""
