from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import boto3
from moto.server import ThreadedMotoServer


@contextmanager
def s3_server(objects: Mapping[str, bytes]) -> Iterator[str]:
    """Give the address of a server with these objects, by key, in the bucket `lake`."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        client = boto3.client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="id",
            aws_secret_access_key="key",
        )
        client.create_bucket(Bucket="lake")
        for key, body in objects.items():
            client.put_object(Bucket="lake", Key=key, Body=body)
        client.close()
        yield url
    finally:
        server.stop()
