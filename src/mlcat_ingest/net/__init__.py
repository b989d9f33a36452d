"""HTTP: requests with retries, sessions, and why a service does not answer."""
