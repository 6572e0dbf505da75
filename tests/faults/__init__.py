"""What a store keeps when client or server is killed, and under load: `python -m tests.faults.kill`, `make soak`."""
