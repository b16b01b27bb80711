"""What operators use: the command line, the API, the doctor, the demo, and what keeps the processes running."""
