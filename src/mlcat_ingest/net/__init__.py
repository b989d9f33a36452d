"""HTTP: requests with retries, sessions, certificates, and reachability of a service."""
