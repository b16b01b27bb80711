"""The operator's tools: the command line, the API, the doctor, the demo, and the supervisor of the processes."""
