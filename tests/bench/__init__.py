"""What Trivet costs: `make bench` starts the whole product against the emulators and prints one table.

Nothing here is a gate. `figures` says what is aimed at, `measures` are the experiments, `product`, `town` and
`model_process` are the processes that take part, `chats` the people who write.
"""
