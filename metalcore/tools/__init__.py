"""The command line: run, inspect, doctor and demo."""
