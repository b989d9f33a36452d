"""Certificates for TLS servers in tests, signed by themselves, of any time and for any name."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

_CONFIG = """
[ca]
default_ca = here
[here]
database = {folder}/index.txt
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
policy = any
x509_extensions = names
[any]
commonName = supplied
[names]
subjectAltName = {name}
basicConstraints = critical,CA:TRUE
keyUsage = critical,digitalSignature,keyCertSign
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
[req]
distinguished_name = asked
[asked]
"""


def make_certificate(
    folder: Path, *, name: str = "IP:127.0.0.1", ends_in: timedelta = timedelta(days=30)
) -> Path:
    """Return a PEM file with a new key and its certificate for `name`, begun 60 days ago."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    start, end = (f"{at:%Y%m%d%H%M%SZ}" for at in (now - timedelta(days=60), now + ends_in))
    config, key, request, cert = (folder / one for one in ("ca.cnf", "key.pem", "csr", "cert.pem"))
    config.write_text(_CONFIG.format(folder=folder, name=name))
    (folder / "index.txt").touch()
    (folder / "serial").write_text("01")
    _openssl(
        f"req -newkey rsa:2048 -nodes -keyout {key} -out {request} -config {config}",
        f"/CN={name.partition(':')[2]}",
    )
    _openssl(
        f"ca -batch -notext -selfsign -config {config} -keyfile {key} -in {request} -out {cert} "
        f"-startdate {start} -enddate {end}"
    )
    both = folder / "both.pem"
    both.write_text(key.read_text() + cert.read_text())
    return both


def _openssl(command: str, subject: str | None = None) -> None:
    named = [] if subject is None else ["-subj", subject]
    subprocess.run(["openssl", *command.split(), *named], check=True, capture_output=True)
