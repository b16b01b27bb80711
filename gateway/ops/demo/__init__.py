"""`trivet demo`: all of Trivet on emulated platforms, with no account, no key and no network.

`rig` starts it, `stage` speaks to the emulators as people would, `script` holds the conversations as data,
`headless` plays and checks them, `__main__` puts it together.
"""
