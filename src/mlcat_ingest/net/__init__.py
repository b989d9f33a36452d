"""HTTP: requests, sessions, certificates, and why an address does not answer."""
